// Package recipetest is the conformance suite of lockctl: what every engine must
// do, on a real server, under faults, and at what cost. An engine's test calls
// [Run] with a function that starts a [Server].
//
//	func TestConformance(t *testing.T) {
//		recipetest.Run(t, recipetest.Limits{CycleCommits: 2}, startServer)
//	}
//
// Most tests share one server and run in parallel, each below a root of its own.
// Tests that restart the server or look at its cost start their own.
package recipetest
