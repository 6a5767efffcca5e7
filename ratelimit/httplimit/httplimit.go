package httplimit

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/ratelimit"
	"github.com/lockctl/lockctl/recipes"
)

// Options say what is limited. nil means all defaults.
type Options struct {
	// Key is whose budget a request is taken from: a tenant, a route. "" is that of the limiter
	// itself. Defaults to ByAddress.
	Key func(*http.Request) string
	// Tokens is what a request costs; what costs 0 or less is not limited. Defaults to 1 for
	// each.
	Tokens func(*http.Request) int64
	// Policy is the name of the policy in the header fields: letters, digits, "-", "_", "." and "/".
	// Defaults to the limiter's name, without other characters.
	Policy string
	// Refuse answers a request that is refused; the header fields are set. Defaults to
	// Problem.
	Refuse func(http.ResponseWriter, *http.Request, ratelimit.Decision)
	// OnError is told of requests about which nothing could be decided: the limiter is closed
	// or not set up, access to the store is denied, or the request's context has ended. They
	// are answered with 503. That the store can't be reached is none: see
	// ratelimit.Options.OnUnavailable. Defaults to none.
	OnError func(*http.Request, error)
}

// A Limit decides about requests, for middleware. Make it with NewLimit.
type Limit struct {
	limiter *ratelimit.Limiter
	o       Options
}

const policyLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"

// NewLimit makes what New uses, for frameworks that have handlers of their own. It returns
// ErrInvalid for a bad Policy.
func NewLimit(limiter *ratelimit.Limiter, opts *Options) (*Limit, error) {
	l := &Limit{limiter: limiter}
	if opts != nil {
		l.o = *opts
	}
	if limiter == nil {
		return nil, &recipes.InvalidError{Field: "limiter", Problem: "is nil"}
	}
	if strings.Trim(l.o.Policy, policyLetters) != "" {
		return nil, &recipes.InvalidError{Field: "Options.Policy", Problem: "has other characters than letters, digits and -_./"}
	}
	if l.o.Policy == "" {
		l.o.Policy = strings.Map(func(r rune) rune {
			if strings.ContainsRune(policyLetters, r) {
				return r
			}
			return '-'
		}, limiter.Name())
	}
	if l.o.Key == nil {
		l.o.Key = ByAddress
	}
	if l.o.Tokens == nil {
		l.o.Tokens = func(*http.Request) int64 { return 1 }
	}
	if l.o.Refuse == nil {
		l.o.Refuse = Problem
	}
	return l, nil
}

// New makes a handler that has next answer the requests that the limiter admits. It returns
// ErrInvalid for a bad option.
func New(next http.Handler, limiter *ratelimit.Limiter, opts *Options) (http.Handler, error) {
	l, err := NewLimit(limiter, opts)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.Admit(w, r) {
			next.ServeHTTP(w, r)
		}
	}), nil
}

// Admit reports whether a request may go on. It sets the header fields; a request that may
// not go on is answered.
func (l *Limit) Admit(w http.ResponseWriter, r *http.Request) bool {
	n := l.o.Tokens(r)
	if n <= 0 {
		return true
	}
	d, err := l.limiter.AllowN(r.Context(), l.o.Key(r), n)
	if err != nil {
		if l.o.OnError != nil {
			l.o.OnError(r, err)
		}
		// Also when the context has ended: that may be a deadline of ours, for which the client waits.
		writeProblem(w, problem{Title: "Service unavailable", Status: http.StatusServiceUnavailable, Detail: "The rate limit can't be checked."})
		return false
	}
	l.SetHeader(w.Header(), d)
	if !d.OK {
		l.o.Refuse(w, r, d)
	}
	return d.OK
}

// SetHeader sets the fields that tell of a decision.
func (l *Limit) SetHeader(h http.Header, d ratelimit.Decision) {
	// The list of all that limits a request, of which there may be others.
	h.Add("RateLimit-Policy", fmt.Sprintf("%q;q=%d;w=%d", l.o.Policy, d.Rate.Tokens, seconds(d.Rate.Per)))
	h.Add("RateLimit", fmt.Sprintf("%q;r=%d;t=%d", l.o.Policy, d.Remaining, seconds(d.ResetAfter)))
	if !d.OK && d.RetryAfter != ratelimit.Never {
		h.Set("Retry-After", strconv.FormatInt(max(seconds(d.RetryAfter), 1), 10))
	}
}

// seconds are whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// problem is a problem of RFC 9457.
type problem struct {
	Type     string   `json:"type,omitempty"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

// Problem answers with 429 and a problem of the draft's type quota-exceeded.
func Problem(w http.ResponseWriter, _ *http.Request, d ratelimit.Decision) {
	detail := "The request costs more than there ever is."
	if d.RetryAfter != ratelimit.Never {
		detail = fmt.Sprintf("Try again after %d s.", max(seconds(d.RetryAfter), 1))
	}
	p := problem{
		Type:  "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title: "Too many requests", Status: http.StatusTooManyRequests, Detail: detail,
	}
	for _, field := range w.Header().Values("RateLimit-Policy") {
		if name, _, ok := strings.Cut(field, ";"); ok {
			p.Violated = append(p.Violated, strings.Trim(name, `"`))
		}
	}
	writeProblem(w, p)
}

func writeProblem(w http.ResponseWriter, p problem) {
	body, err := json.Marshal(p)
	if err != nil {
		w.WriteHeader(p.Status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // whoever asked may be gone
}

// ByAddress is the key of who has sent a request: the address of the connection, without the
// port; of IPv6 the network of 64 bits, of which one customer has many addresses. Behind a
// proxy that is the proxy's.
func ByAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	host, _, _ = strings.Cut(host, "%")
	ip := net.ParseIP(host)
	if ip == nil || ip.To4() != nil {
		return host
	}
	return ip.Mask(net.CIDRMask(64, 128)).String() + "/64"
}

// Together is the key of all requests: they share one budget.
func Together(*http.Request) string { return "" }
