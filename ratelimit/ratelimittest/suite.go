package ratelimittest

import (
	"testing"

	"github.com/lockctl/lockctl/internal/suite"
	"github.com/lockctl/lockctl/recipes/recipetest"
)

// Run runs the suite. start is called once, for one server that the tests share.
func Run(t *testing.T, start func(t testing.TB) recipetest.Server) {
	suite.Run(t, start, alone, tests)
}

// Names are the names of all tests of the suite.
func Names() []string { return suite.Names(alone, tests) }

var alone = []suite.Test{
	{Name: "CostLeased", Run: testCostLeased},
	{Name: "CostExact", Run: testCostExact},
	{Name: "Restart", Run: testRestart},
}

var tests = []suite.Test{
	{Name: "EveryWindow", Run: testEveryWindow},
	{Name: "HoardThenBurst", Run: testHoardThenBurst},
	{Name: "CrashLosesTokens", Run: testCrashLosesTokens},
	{Name: "CutOff", Run: testCutOff},
	{Name: "CloseGivesBack", Run: testCloseGivesBack},
	{Name: "IdleGivesBack", Run: testIdleGivesBack},
	{Name: "AllTokensAreUsed", Run: testAllTokensAreUsed},
	{Name: "ExactCount", Run: testExactCount},
	{Name: "Window", Run: testWindow},
	{Name: "QuietIsNotStarved", Run: testQuietIsNotStarved},
	{Name: "LargeNeeds", Run: testLargeNeeds},
	{Name: "WaitInOrder", Run: testWaitInOrder},
	{Name: "ExactBesideALine", Run: testExactBesideALine},
	{Name: "ReserveAndCancel", Run: testReserveAndCancel},
	{Name: "ColdStart", Run: testColdStart},
	{Name: "ShiftedClock", Run: testShiftedClock},
	{Name: "OutageClosed", Run: testOutageClosed},
	{Name: "OutageOpen", Run: testOutageOpen},
	{Name: "OutageDecay", Run: testOutageDecay},
	{Name: "OutageWait", Run: testOutageWait},
	{Name: "SlowStore", Run: testSlowStore},
	{Name: "LostReplies", Run: testLostReplies},
	{Name: "RateChanges", Run: testRateChanges},
	{Name: "ModeChanges", Run: testModeChanges},
	{Name: "StoredConfigCounts", Run: testStoredConfigCounts},
	{Name: "Keys", Run: testKeys},
	{Name: "KeysAreForgotten", Run: testKeysAreForgotten},
	{Name: "KeysInUseStay", Run: testKeysInUseStay},
	{Name: "KeySetByHand", Run: testKeySetByHand},
	{Name: "Take", Run: testTake},
	{Name: "Look", Run: testLook},
	{Name: "Concurrency", Run: testConcurrency},
	{Name: "Unset", Run: testUnset},
	{Name: "Foreign", Run: testForeign},
	{Name: "Invalid", Run: testInvalid},
	{Name: "Closed", Run: testClosed},
}
