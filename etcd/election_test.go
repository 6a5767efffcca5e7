package etcd_test

import (
	"testing"

	"github.com/lockctl/lockctl/election/electiontest"
)

func TestElection(t *testing.T) { electiontest.Run(t, startHarness) }
