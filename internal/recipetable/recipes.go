package main

import "strings"

// recipes are the rows, with the beginnings of the names of their tests. A test of
// the suite of package recipes that begins with none of them is of the mutex, which
// all else is made of.
var recipes = []struct {
	title  string
	suite  string // the test that runs the suite
	begins []string
}{
	{mutex, conformance, nil},
	{"`RWMutex`", conformance, []string{"RW"}},
	{"`Semaphore`", conformance, []string{"Semaphore"}},
	{"`Multi`", conformance, []string{"Multi"}},
	{"asking and breaking", conformance, []string{"Ask", "Break"}},
	{guard, conformance, []string{"Guard"}},
	{"election", "TestElection", []string{""}},
	{"`Register`, `Counter`", conformance, []string{"Register", "Counter"}},
	{"`Queue`", conformance, []string{"Queue"}},
	{"`Once`", conformance, []string{"Once"}},
	{"`Group`", conformance, []string{"Group"}},
	{"`Partition`", conformance, []string{"Partition"}},
	{"`Latch`", conformance, []string{"Latch"}},
	{"`Barrier`, `DoubleBarrier`", conformance, []string{"Barrier", "DoubleBarrier"}},
	{"job", "TestJob", []string{""}},
	{"ratelimit", "TestRateLimit", []string{""}},
	{"looking and watching", conformance, []string{"Locks", "Watch", "Objects", "View"}},
}

const (
	mutex       = "`Mutex`"
	guard       = "fencing: `Guard`"
	conformance = "TestConformance"
)

// recipeOf is the recipe that a test is of, "" if it is of none or not a single test.
func recipeOf(test string) string {
	parts := strings.Split(test, "/")
	suite, name := parts[0], parts[len(parts)-1]
	if len(parts) < 2 || name == "shared" || name == "own" {
		return ""
	}
	name = strings.TrimPrefix(name, "CostOf")
	for _, r := range recipes {
		for _, begin := range r.begins {
			if r.suite == suite && strings.HasPrefix(name, begin) {
				return r.title
			}
		}
	}
	if suite == conformance {
		return mutex
	}
	return ""
}
