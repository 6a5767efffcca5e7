//go:build linux

package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockctl/lockctl/chaos/internal/history"
	"github.com/lockctl/lockctl/recipes"
)

// RoundSize is how many members a round of the double barriers of a run has: fewer than there
// are workers, so that some come late.
const RoundSize = 2

// cross is a round of a member of a double barrier.
func (l *loop) cross(ctx context.Context, b *recipes.DoubleBarrier) {
	l.pause(ctx, shortestRest, longestRest)
	e, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Round, Name: b.Name(), N: 1})
	defer cancel()
	crossing, err := b.Enter(waiting)
	if err != nil {
		l.failed(ctx, e, err)
		return
	}
	defer l.granted(crossing.Context(), e)()
	l.work(crossing.Context())
	l.released(e, crossing.Leave)
}

// Members of a group come and go, and look who else is there.
const (
	shortestVisit = 500 * time.Millisecond
	longestVisit  = 3 * time.Second
	longestLook   = 500 * time.Millisecond // between two looks
)

// visit is a round of a member of a group.
func (l *loop) visit(ctx context.Context, g *recipes.Group) {
	e, waiting, cancel := l.begin(ctx, history.Event{Kind: history.Group, Name: g.Name()})
	defer cancel()
	e.ID = fmt.Sprintf("%s/%d", l.config.Proc, e.Op)
	member, err := g.Join(waiting, e.ID)
	if err != nil {
		l.failed(ctx, e, err)
		return
	}
	defer l.granted(member.Context(), e)()
	staying, leave := context.WithTimeout(member.Context(), shortestVisit+time.Duration(l.rand.Int64N(int64(longestVisit-shortestVisit))))
	defer leave()
	defer context.AfterFunc(ctx, leave)()
	for staying.Err() == nil {
		l.look(ctx, g)
		l.pause(staying, longestLook/10, longestLook)
	}
	l.released(e, member.Leave)
}

// look records who is in a group.
func (l *loop) look(ctx context.Context, g *recipes.Group) {
	e := history.Event{Loop: l.name, Op: l.ops.Add(1), What: history.Called, Kind: history.View, Name: g.Name()}
	l.log.Add(e)
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	members, err := g.Members(ctx)
	for _, m := range members {
		var id string
		if err == nil {
			err = json.Unmarshal(m.Meta, &id)
		}
		e.IDs = append(e.IDs, id)
	}
	if err != nil {
		l.failed(ctx, e, err)
		return
	}
	e.What = history.Granted
	l.log.Add(e)
}
