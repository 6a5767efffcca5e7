//go:build linux

// Package report writes what came of a run as one page of HTML that needs nothing
// else: the verdict, how to run it again, the counts, and pictures over time of the
// faults, of who held a lock, and of how long it took to get one.
package report
