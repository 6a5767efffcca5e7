package console

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

// A guard knows the hosts under which the console answers. A page on another
// site can make its own name resolve to this address, and would then be allowed
// by the browser to read the answers; it can't choose the Host header, though.
type guard struct {
	hosts map[string]bool // "name" for any port, or "name:port"
}

func newGuard(allowed []string) (guard, error) {
	g := guard{hosts: map[string]bool{}}
	for _, entry := range allowed {
		name, port := splitHost(entry)
		_, err := strconv.ParseUint(cmp.Or(port, "0"), 10, 16)
		if name == "" || strings.ContainsAny(name, "/*@?# ") || err != nil {
			return g, &recipes.InvalidError{
				Field:   "Options.AllowedHosts",
				Problem: fmt.Sprintf("has %q, which is not a host or host:port", entry),
			}
		}
		if port != "" {
			name = net.JoinHostPort(name, port)
		}
		g.hosts[name] = true
	}
	return g, nil
}

// splitHost takes a host with or without a port apart. The name comes in lower
// case, without brackets or a final dot.
func splitHost(hostport string) (name, port string) {
	name = hostport
	if host, p, err := net.SplitHostPort(hostport); err == nil {
		name, port = host, p
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	return strings.TrimSuffix(strings.ToLower(name), "."), port
}

// listed reports whether the host was allowed by name.
func (g guard) listed(hostport string) bool {
	name, port := splitHost(hostport)
	return g.hosts[name] || port != "" && g.hosts[net.JoinHostPort(name, port)]
}

// answers reports whether the console answers a request that names this host.
// Addresses are safe: only names can be made to resolve to something else.
func (g guard) answers(r *http.Request) bool {
	name, _ := splitHost(r.Host)
	if name == "localhost" || g.listed(r.Host) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if addr.Unmap().IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().WithZone("") == addr.Unmap().WithZone("")
}

// streams reports whether the page that asks for a socket may have it: one of
// the same host and port, or of a host that was allowed by name. Programs that
// are no browsers send no Origin.
func (g guard) streams(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	return strings.EqualFold(u.Host, r.Host) || g.listed(u.Host)
}

const nonceKey = "nonce"

// secure refuses hosts that are not the console's and sets the headers that every
// answer has.
func (c *Console) secure(next echo.HandlerFunc) echo.HandlerFunc {
	return func(ec echo.Context) error {
		nonce := rand.Text()
		ec.Set(nonceKey, nonce)
		h := ec.Response().Header()
		h.Set("Content-Security-Policy", contentPolicy(nonce))
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !c.guard.answers(ec.Request()) {
			return echo.NewHTTPError(http.StatusMisdirectedRequest, fmt.Sprintf(
				"This console does not answer under the host name “%s”. Whoever runs it can add the name to the allowed hosts.",
				clip(termtext.Escape(ec.Request().Host), 100)))
		}
		return next(ec)
	}
}

// contentPolicy admits the console's own files, by a nonce so that other files
// of a site that it is mounted in are not admitted.
func contentPolicy(nonce string) string {
	return "default-src 'none'; script-src 'nonce-" + nonce + "'; style-src 'nonce-" + nonce + "'; " +
		"img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"require-trusted-types-for 'script'; trusted-types console"
}
