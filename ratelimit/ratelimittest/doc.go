// Package ratelimittest is the conformance suite of package ratelimit: [Run] runs it on a
// service, as package recipetest runs its own.
package ratelimittest
