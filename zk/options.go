package zk

import (
	"crypto/tls"
	"slices"
	"strings"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/lockctl/lockctl/internal/backendurl"
	"github.com/lockctl/lockctl/recipes"
)

const (
	// DefaultRoot is the root of clients that name none.
	DefaultRoot = "/lockctl"
	// DefaultTTL is the session timeout that Dial asks for if none is named.
	DefaultTTL = 15 * time.Second
	// DefaultOpenTTL is the session timeout that Open assumes if none is named: the
	// shortest that a server grants which ticks every 2 s, as it does by default.
	DefaultOpenTTL = 4 * time.Second

	scheme         = "zk"
	defaultPort    = "2181"
	connectTimeout = 5 * time.Second
	closeTimeout   = 5 * time.Second

	shortestTTL = 100 * time.Millisecond
	longestTTL  = 24 * time.Hour
)

// Options adjust a client. A nil *Options means all defaults.
type Options struct {
	// Root is the node below which everything is kept: it begins with "/" and its
	// elements are printable ASCII. Defaults to DefaultRoot.
	Root string
	// TTL is the session timeout, from 100 ms to 24 h.
	//
	// Dial asks for it, and goes by what the servers grant: between 2 and 20 of
	// their ticks, by default 4 s to 40 s. Defaults to DefaultTTL.
	//
	// Open can't learn from the connection what was granted. Set it to that, which
	// is what zk.Connect was given, within the servers' limits: if it is longer, a
	// holder can learn of a loss too late. Defaults to DefaultOpenTTL.
	TTL time.Duration
	// TLS is for Dial. Defaults to what the URL says.
	TLS *tls.Config
	// User and Password are added to the connection as "digest" credentials. For
	// Dial they default to what the URL says.
	User, Password string
	// ACL is for each node that is created. Defaults to all rights for the creator
	// if User is set, and otherwise for everybody.
	ACL []gozk.ACL
	// DisconnectIsLoss ends the session, and so loses every hold, as soon as the
	// connection breaks. It is for Dial. Defaults to false: holds are kept until
	// their deadline, and survive if a server is found before that.
	DisconnectIsLoss bool
	// Client has the options that all engines share.
	Client recipes.ClientOptions
}

func (o *Options) withDefaults(ttl time.Duration) (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Root == "" {
		opts.Root = DefaultRoot
	}
	if problem := rootProblem(opts.Root); problem != "" {
		return opts, invalid("Options.Root", problem)
	}
	if opts.TTL == 0 {
		opts.TTL = ttl
	}
	if opts.TTL < shortestTTL || opts.TTL > longestTTL {
		return opts, invalid("Options.TTL", "is not between 100 ms and 24 h")
	}
	if problem := opts.userProblem(); problem != "" {
		return opts, invalid("Options.User", problem)
	}
	opts.ACL = slices.Clone(opts.ACL)
	if len(opts.ACL) == 0 && opts.User != "" {
		opts.ACL = gozk.AuthACL(gozk.PermAll)
	}
	if len(opts.ACL) == 0 {
		opts.ACL = gozk.WorldACL(gozk.PermAll)
	}
	if opts.Client.ConnectTimeout == 0 {
		opts.Client.ConnectTimeout = connectTimeout
	}
	if opts.Client.CloseTimeout == 0 {
		opts.Client.CloseTimeout = closeTimeout
	}
	return opts, nil
}

func (o *Options) userProblem() string {
	switch {
	case o.User == "" && o.Password != "":
		return "is empty although there is a password"
	case o.User != "" && o.Password == "":
		return "is set without a password"
	case strings.Contains(o.User, ":"):
		return `contains a ":"`
	}
	return ""
}

// rootProblem says what is wrong with a root, or "".
func rootProblem(root string) string {
	if problem := backendurl.RootProblem(root); problem != "" {
		return problem
	}
	if root == "/zookeeper" || strings.HasPrefix(root, "/zookeeper/") {
		return "is ZooKeeper's own"
	}
	return ""
}

// fromURL fills in what opts leaves open.
func fromURL(u backendurl.URL, opts *Options) (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Root == "" {
		o.Root = u.Root
	}
	if o.TTL == 0 {
		o.TTL = u.TTL
	}
	if o.User == "" && u.User != "" {
		password, err := u.Password()
		if err != nil {
			return o, err
		}
		if password == "" {
			return o, invalid("backend URL", "names a user without a password: set password-file or LOCKCTL_PASSWORD")
		}
		o.User, o.Password = u.User, password
	}
	if o.TLS == nil {
		config, err := u.TLSConfig()
		if err != nil {
			return o, err
		}
		o.TLS = config
	}
	return o.withDefaults(DefaultTTL)
}

func invalid(field, problem string) error {
	return &recipes.InvalidError{Field: field, Problem: problem}
}
