// Package mutant is a small engine on etcd that is right if nothing else is asked for,
// and broken in one way if it is: to show that a run finds what it is there to find.
//
// It does what mutexes need and no more. Each mutation is a mistake that was made
// before, here or elsewhere.
package mutant
