package jobtest

import (
	"testing"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// Run runs the suite. start is called once, for one server that the tests share.
func Run(t *testing.T, limits Limits, start func(t testing.TB) recipetest.Server) {
	suite.Run(t, start, alone(limits), tests)
}

// Names are the names of all tests of the suite.
func Names() []string { return suite.Names(alone(Limits{}), tests) }

func alone(limits Limits) []suite.Test {
	return []suite.Test{
		{Name: "Cost", Run: func(t *testing.T, w *suite.World) { testCost(t, w, limits) }},
	}
}

// Limits say what a job may cost on an engine.
type Limits struct {
	TickReads int // one tick, besides two commits
}

var tests = []suite.Test{
	{Name: "OncePerTick", Run: testOncePerTick},
	{Name: "Skew", Run: testSkew},
	{Name: "ClockSetDuringWork", Run: testClockSetDuringWork},
	{Name: "Rotate", Run: testRotate},
	{Name: "MinHold", Run: testMinHold},
	{Name: "AtMostOnceCrash", Run: testAtMostOnceCrash},
	{Name: "AtLeastOnceCrash", Run: testAtLeastOnceCrash},
	{Name: "Attempts", Run: testAttempts},
	{Name: "Panic", Run: testPanic},
	{Name: "Missed", Run: testMissed},
	{Name: "LongWork", Run: testLongWork},
	{Name: "ScheduleChange", Run: testScheduleChange},
	{Name: "LossComesFirst", Run: testLossComesFirst},
	{Name: "LateRecord", Run: testLateRecord},
	{Name: "LostReplies", Run: testLostReplies},
	{Name: "WaiterExpires", Run: testWaiterExpires},
	{Name: "RemovedByHand", Run: testRemovedByHand},
	{Name: "Broken", Run: testBroken},
	{Name: "Asked", Run: testAsked},
	{Name: "Shutdown", Run: testShutdown},
	{Name: "ShutdownAtTheTick", Run: testShutdownAtTheTick},
	{Name: "State", Run: testState},
	{Name: "Reset", Run: testReset},
	{Name: "LaterToken", Run: testLaterToken},
	{Name: "Invalid", Run: testInvalid},
	{Name: "Closed", Run: testClosed},
}
