// Package jobtest is the conformance suite of package job: [Run] runs it on a service,
// as package recipetest runs its own.
package jobtest
