//go:build linux

package check_test

import (
	"testing"
)

func TestOperators(t *testing.T) {
	t.Parallel()
	tryAll(t, map[string]trial{
		"a lock that an operator has broken": {nil, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			3 b.1 1 called seized m
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=4096 id=a.1
			6 b.1 1 granted seized m token=8192
			7 a.1 1 ended seized m err=the_entry_was_removed_by_someone_else
			8 a.1 1 release seized m
			9 a.1 1 released seized m err=the_entry_was_removed_by_someone_else
			10 c.1 1 granted operator m token=4096`},
		"a lock that was granted while it was broken": {nil, `
			1 a.1 1 called seized m
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=4096 id=a.1
			6 a.1 1 granted seized m token=4096
			7 b.1 1 called seized m
			8 b.1 1 granted seized m token=8192
			9 a.1 1 ended seized m err=the_entry_was_removed_by_someone_else`},
		"a lock that was broken while the grant was on its way": {nil, `
			1 a.1 1 called seized m
			2 b.1 1 called seized m
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=4096 id=a.1
			6 c.1 1 granted operator m token=4096
			7 b.1 1 granted seized m token=8192
			8 a.1 1 granted seized m token=4096
			9 a.1 1 ended seized m err=the_entry_was_removed_by_someone_else
			10 b.1 1 release seized m`},
		"a lock that is granted long after it was broken": {[]string{"exclusion", "tokens", "model"}, `
			1 a.1 1 called seized m
			2 b.1 1 called seized m
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=4096 id=a.1
			6 c.1 1 granted operator m token=4096
			7 b.1 1 granted seized m token=8192
			300 a.1 1 granted seized m token=4096
			301 a.1 1 ended seized m err=the_entry_was_removed_by_someone_else
			310 b.1 1 release seized m`},
		"a lock of which an operator has broken another hold": {[]string{"exclusion", "broken", "model"}, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			3 b.1 1 called seized m
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=12288 id=a.1
			6 b.1 1 granted seized m token=8192
			7 a.1 1 ended seized m err=the_entry_was_removed_by_someone_else
			10 c.1 1 granted operator m token=12288`},
		"a holder who did not hear that its lock was broken": {[]string{"seized"}, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=4096 id=a.1
			10 c.1 1 granted operator m token=4096
			3100 a.1 1 release seized m
			3101 a.1 1 released seized m`},
		"the same while it did not run": {nil, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=4096 id=a.1
			10 c.1 1 granted operator m token=4096
			3100 a.1 0 paused since=3
			3101 a.1 1 release seized m
			3102 a.1 1 released seized m`},
		"a lock that could not be broken": {nil, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			4 c.1 1 called operator m
			5 c.1 1 breaking operator m token=4096 id=a.1
			10 c.1 1 failed operator m err=unavailable
			3100 a.1 1 release seized m
			3101 a.1 1 released seized m`},
		"a lock that was broken for the reason that its holder was told": {nil, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			5 c.1 2 called operator m
			6 c.1 2 breaking operator m token=4096 id=a.1
			7 a.1 1 ended seized m err=lost:_broken_by_c:_c.1/2`},
		"a lock that was broken for another reason": {[]string{"broken"}, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			5 c.1 2 called operator m
			6 c.1 2 breaking operator m token=4096 id=a.1
			7 a.1 1 ended seized m err=lost:_broken_by_c:_c.1/3`},
		"a place in line that was broken": {nil, `
			1 a.1 1 called seized m
			5 c.1 1 called operator m
			6 c.1 1 breaking operator m token=4096 id=a.1
			7 a.1 1 failed seized m err=the_entry_was_removed_by_someone_else`},
		"a place in line of which another was broken": {[]string{"broken"}, `
			1 a.1 1 called seized m
			5 c.1 1 called operator m
			6 c.1 1 breaking operator m token=4096 id=b.1
			7 a.1 1 failed seized m err=the_entry_was_removed_by_someone_else`},
		"a lock that was asked for": {nil, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			4 c.1 1 called operator m
			5 c.1 1 asking operator m
			7 a.1 1 release seized m
			8 a.1 1 released seized m
			10 c.1 1 granted operator m`},
		"a lock that was asked for, and not released": {[]string{"asked"}, `
			1 a.1 1 called seized m
			2 a.1 1 granted seized m token=4096
			4 c.1 1 called operator m
			5 c.1 1 asking operator m
			10 c.1 1 granted operator m
			11 a.1 1 release seized m
			12 a.1 1 released seized m`},
	})
}
