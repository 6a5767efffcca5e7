package etcd_test

import (
	"testing"

	"github.com/lockctl/lockctl/job/jobtest"
)

func TestJob(t *testing.T) { jobtest.Run(t, jobtest.Limits{TickReads: 2}, startHarness) }
