package sqldb

import (
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/lockctl/lockctl/recipes"
)

// ParseURL reads the URL of a database, such as "postgres://user@host:5432/db?ttl=15s",
// whose scheme must be one of those given. It takes the parameters ttl, poll, table and
// password-file into the options, where those don't say otherwise, and returns the URL
// without them, with the password of the file or of the environment's LOCKCTL_PASSWORD,
// if there is one. A password in the URL is refused: others can see it in the list of
// processes. It returns ErrInvalid, with an error that does not repeat passwords.
func ParseURL(raw string, opts *Options, schemes ...string) (*url.URL, *Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, nil, invalid("can't be read")
	}
	known := false
	for _, s := range schemes {
		known = known || u.Scheme == s
	}
	if !known {
		return nil, nil, invalid("must begin with " + strings.Join(schemes, ": or ") + ":")
	}
	if _, has := u.User.Password(); has {
		return nil, nil, invalid("must not have a password: use password-file=, or LOCKCTL_PASSWORD")
	}
	values := u.Query()
	own := func(name string) string {
		v := values.Get(name)
		values.Del(name)
		return v
	}
	for name, into := range map[string]*time.Duration{"ttl": &o.Lease.TTL, "poll": &o.Lease.Poll} {
		text := own(name)
		if text == "" || *into != 0 {
			continue
		}
		if *into, err = time.ParseDuration(text); err != nil || *into <= 0 {
			return nil, nil, invalid("has a bad " + name + ": it is a duration such as 15s")
		}
	}
	if table := own("table"); table != "" && o.Table == "" {
		o.Table = table
	}
	password := os.Getenv("LOCKCTL_PASSWORD")
	if file := own("password-file"); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, invalid("has a bad password-file: " + err.Error())
		}
		password = strings.TrimRight(string(data), "\r\n")
	}
	if u.User != nil && password != "" {
		u.User = url.UserPassword(u.User.Username(), password)
	}
	u.RawQuery = values.Encode()
	return u, &o, nil
}

func invalid(problem string) error { return &recipes.InvalidError{Field: "URL", Problem: problem} }
