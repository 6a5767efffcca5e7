// Package backendurl reads the URLs that name a service, its servers, the root
// below which a client works, and how to prove who one is:
//
//	etcd://host:port,host:port/root?ttl=15s&user=u&password-file=/run/secret
//
// It is shared by the engines, so that every URL takes the same parameters.
package backendurl

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lockctl/lockctl/recipes"
)

// A URL is what a backend's URL says.
type URL struct {
	Scheme  string
	Servers []string      // host:port each, at least one
	Root    string        // "" or a path that begins with "/" and does not end with it
	TTL     time.Duration // 0 if not given

	User         string
	PasswordFile string

	TLS      bool // wanted, by itself or because a file was given
	CACert   string
	Cert     string
	Key      string
	ServerID string // the name the server's certificate must have, "" for the host's

	More map[string]string // the engine's own parameters, those that are given
}

// parameters are what may stand behind the "?".
var parameters = []string{"ttl", "user", "password-file", "tls", "cacert", "cert", "key", "server-name"}

// Parse reads a URL whose scheme must be the given one. Servers without a port
// get the default port. An engine can have parameters of its own besides those that all
// have. It returns a *recipes.InvalidError, which does not repeat passwords.
func Parse(raw, scheme, defaultPort string, more ...string) (URL, error) {
	u := URL{Scheme: scheme}
	rest, ok := strings.CutPrefix(raw, scheme+"://")
	if !ok {
		return u, invalid("must begin with %s://", scheme)
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, root, hasRoot := strings.Cut(rest, "/")
	if strings.Contains(hosts, "@") {
		return u, invalid("must not have a user or password in front of the servers: use user= and password-file=, or the environment")
	}
	if strings.Contains(rest, "#") {
		return u, invalid("must not have a fragment")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		server, err := withPort(host, defaultPort)
		if err != nil {
			return u, err
		}
		u.Servers = append(u.Servers, server)
	}
	if hasRoot {
		root, err := readRoot(root)
		if err != nil {
			return u, err
		}
		u.Root = root
	}
	return u, u.readQuery(query, more)
}

func withPort(host, defaultPort string) (string, error) {
	if host == "" {
		return "", invalid("has an empty server")
	}
	if !strings.Contains(host, ":") || strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host += ":" + defaultPort
	}
	name, port, err := net.SplitHostPort(host)
	blank := strings.ContainsFunc(host, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	if err != nil || name == "" || blank {
		return "", invalid("has a bad server %q", host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", invalid("has a bad server %q: the port is a number up to 65535", host)
	}
	return host, nil
}

func readRoot(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	path = strings.TrimSuffix(path, "/")
	root, err := url.PathUnescape(path)
	if err != nil {
		return "", invalid("has a bad root %q", path)
	}
	root = "/" + root
	if problem := RootProblem(root); problem != "" {
		return "", invalid("has a root that %s", problem)
	}
	return root, nil
}

// RootProblem says what is wrong with a root, or "". A root begins with "/" and
// has elements of printable ASCII that are not empty, "." or "..".
func RootProblem(root string) string {
	if !strings.HasPrefix(root, "/") || len(root) < 2 {
		return `does not begin with "/" and a name`
	}
	for element := range strings.SplitSeq(root[1:], "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Sprintf("has an element %q", element)
		}
		if strings.IndexFunc(element, func(r rune) bool { return r < '!' || r > '~' }) >= 0 {
			return "has a character that is not printable ASCII"
		}
	}
	return ""
}

func (u *URL) readQuery(query string, more []string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid("has bad parameters")
	}
	known := slices.Concat(parameters, more)
	for name, v := range values {
		if !slices.Contains(known, name) {
			return invalid("has an unknown parameter %q; known are %s", name, strings.Join(known, ", "))
		}
		if len(v) > 1 || v[0] == "" {
			return invalid("must give %s once, with a value", name)
		}
	}
	for _, name := range more {
		if !values.Has(name) {
			continue
		}
		if u.More == nil {
			u.More = map[string]string{}
		}
		u.More[name] = values.Get(name)
	}
	if text := values.Get("ttl"); text != "" {
		if u.TTL, err = time.ParseDuration(text); err != nil || u.TTL <= 0 {
			return invalid("has a bad ttl %q: it is a duration such as 15s", text)
		}
	}
	switch text := values.Get("tls"); text {
	case "", "false":
	case "true":
		u.TLS = true
	default:
		return invalid("has a bad tls %q: it is true or false", text)
	}
	u.User, u.PasswordFile = values.Get("user"), values.Get("password-file")
	u.CACert, u.Cert, u.Key = values.Get("cacert"), values.Get("cert"), values.Get("key")
	u.ServerID = values.Get("server-name")
	if (u.Cert == "") != (u.Key == "") {
		return invalid("must give cert and key together")
	}
	if u.CACert != "" || u.Cert != "" || u.ServerID != "" {
		if values.Get("tls") == "false" {
			return invalid("says tls=false and gives certificates")
		}
		u.TLS = true
	}
	return nil
}

// Password returns the content of the password file without its line end or, if
// none is named, the environment's LOCKCTL_PASSWORD. It is "" without a user.
func (u URL) Password() (string, error) {
	if u.User == "" {
		return "", nil
	}
	return ReadPassword(u.PasswordFile, "LOCKCTL_PASSWORD")
}

// ReadPassword returns the content of a password file without its line end or, if none
// is named, what the environment has under that name.
func ReadPassword(file, env string) (string, error) {
	if file == "" {
		return os.Getenv(env), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", invalid("names a password file that can't be read: %v", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// TLSConfig reads the files that the URL names. It is nil without TLS.
func (u URL) TLSConfig() (*tls.Config, error) {
	if !u.TLS {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.ServerID}
	if u.CACert != "" {
		pem, err := os.ReadFile(u.CACert)
		if err != nil {
			return nil, invalid("names a cacert that can't be read: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, invalid("names a cacert without a certificate in it: %s", u.CACert)
		}
	}
	if u.Cert != "" {
		pair, err := tls.LoadX509KeyPair(u.Cert, u.Key)
		if err != nil {
			return nil, invalid("names a cert and key that can't be used: %v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func invalid(format string, args ...any) error {
	return &recipes.InvalidError{Field: "backend URL", Problem: fmt.Sprintf(format, args...)}
}
