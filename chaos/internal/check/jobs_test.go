//go:build linux

package check_test

import "testing"

func TestJobs(t *testing.T) {
	t.Parallel()
	tryAll(t, map[string]trial{
		"ticks in turn": {nil, `
			1 a.1 1 called job j
			2 b.1 1 called job j
			3 a.1 1 granted job j token=5 id=12:00
			4 a.1 1 release job j
			5 a.1 1 released job j
			6 b.1 1 granted job j token=6 id=12:01
			7 b.1 1 release job j
			8 b.1 1 released job j`},
		"two ticks at a time": {[]string{"exclusion", "model"}, `
			1 a.1 1 called job j
			2 b.1 1 called job j
			3 a.1 1 granted job j token=5 id=12:00
			4 b.1 1 granted job j token=6 id=12:01
			5 a.1 1 release job j
			6 a.1 1 released job j
			7 b.1 1 release job j
			8 b.1 1 released job j`},
		"a tick that is run twice": {[]string{"ticks"}, `
			1 a.1 1 called job j
			2 b.1 1 called job j
			3 a.1 1 granted job j token=5 id=12:00
			4 a.1 1 release job j
			5 a.1 1 released job j
			6 b.1 1 granted job j token=6 id=12:00
			7 b.1 1 release job j
			8 b.1 1 released job j`},
		"a tick that is run again after a reset": {nil, `
			1 a.1 1 called job j
			2 b.1 1 called job j
			3 a.1 1 granted job j token=5 id=12:00
			4 a.1 1 release job j
			5 a.1 1 released job j
			5 c.1 0 resetting job j
			6 b.1 1 granted job j token=6 id=12:00
			7 b.1 1 release job j
			8 b.1 1 released job j`},
	})
}
