// Package electiontest is the conformance suite of package election: [Run] runs it
// on a service, as package recipetest runs its own.
package electiontest
