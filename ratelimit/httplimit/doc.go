// Package httplimit limits requests to an http.Handler by a limiter that all processes share.
//
//	limiter, err := ratelimit.New(client, "api", &ratelimit.Options{…})
//	…
//	handler, err := httplimit.New(mux, limiter, &httplimit.Options{Key: byTenant})
//
// A request that is refused is answered with 429, Retry-After, and a problem of RFC 9457. All
// answers have the fields RateLimit and RateLimit-Policy of the IETF's draft
// (draft-ietf-httpapi-ratelimit-headers, as of its tenth version): lists of structured fields, such as
//
//	RateLimit-Policy: "api";q=100;w=1
//	RateLimit: "api";r=73;t=1
//
// where q is the quota, w its window in seconds, r what remains and t the seconds until it is
// all there again. For a bucket the quota is the rate's, and the burst is not in it.
//
// What remains is what this process knows: other processes may have more, or be about to
// take it.
package httplimit
