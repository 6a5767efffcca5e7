// Package grpclimit limits the calls to a gRPC server by a limiter that all processes share.
package grpclimit

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lockctl/lockctl/ratelimit"
)

// A KeyFunc is whose budget a call is taken from; method is as "/package.Service/Method".
// "" is that of the limiter itself.
type KeyFunc func(ctx context.Context, method string) string

// Unary limits calls. A call that is refused fails with ResourceExhausted, and has the
// seconds to wait in its trailer "retry-after". One about which nothing could be decided
// fails with Unavailable. A nil key takes all from the limiter's own budget.
func Unary(limiter *ratelimit.Limiter, key KeyFunc) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		refused, err := admit(ctx, limiter, key, info.FullMethod)
		if err != nil {
			if refused != nil {
				_ = grpc.SetTrailer(ctx, refused) // the status says it too
			}
			return nil, err
		}
		return handler(ctx, request)
	}
}

// Stream limits streams, by when they begin, as Unary does calls.
func Stream(limiter *ratelimit.Limiter, key KeyFunc) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		refused, err := admit(stream.Context(), limiter, key, info.FullMethod)
		if err != nil {
			if refused != nil {
				stream.SetTrailer(refused)
			}
			return err
		}
		return handler(server, stream)
	}
}

func admit(ctx context.Context, limiter *ratelimit.Limiter, key KeyFunc, method string) (metadata.MD, error) {
	whose := ""
	if key != nil {
		whose = key(ctx, method)
	}
	d, err := limiter.Allow(ctx, whose)
	switch {
	case ctx.Err() != nil:
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return nil, status.Error(codes.Unavailable, "the rate limit can't be checked")
	case d.OK:
		return nil, nil
	case d.RetryAfter == ratelimit.Never:
		return nil, status.Error(codes.ResourceExhausted, "the call costs more than there ever is")
	}
	wait := int64(max(math.Ceil(d.RetryAfter.Seconds()), 1))
	return metadata.Pairs("retry-after", strconv.FormatInt(wait, 10)),
		status.Error(codes.ResourceExhausted, fmt.Sprintf("too many calls: try again after %d s", wait))
}
