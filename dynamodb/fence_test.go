package dynamodb_test

import (
	"context"
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/dynamodb"
	"github.com/lockctl/lockctl/internal/dynaserver"
	"github.com/lockctl/lockctl/internal/faultlink"
	"github.com/lockctl/lockctl/recipes"
)

// writers are the two ways to write the item "report" under a hold.
func writers(t *testing.T, client *awsdb.Client) map[string]func(h *recipes.Hold, value string) error {
	t.Helper()
	return map[string]func(h *recipes.Hold, value string) error{
		"put": func(h *recipes.Hold, value string) error {
			fence := dynamodb.Fence(h, "token")
			_, err := client.PutItem(within(t), &awsdb.PutItemInput{
				TableName: aws.String("locks"), Item: attributes{"key": text("report"), "value": text(value), "token": fence.Token},
				ConditionExpression: &fence.Condition, ExpressionAttributeNames: fence.Names, ExpressionAttributeValues: fence.Values,
			})
			return err
		},
		"update": func(h *recipes.Hold, value string) error {
			fence := dynamodb.Fence(h, "token")
			values := attributes{":value": text(value), ":no": text("nothing")}
			maps.Copy(values, fence.Values)
			fence.Names["#value"] = "value"
			_, err := client.UpdateItem(within(t), &awsdb.UpdateItemInput{
				TableName: aws.String("locks"), Key: attributes{"key": text("report")},
				UpdateExpression:         aws.String("SET #value = :value, " + fence.Set),
				ConditionExpression:      aws.String("#value <> :no AND " + fence.Condition),
				ExpressionAttributeNames: fence.Names, ExpressionAttributeValues: values,
			})
			return err
		},
	}
}

// TestFence has a holder that was cut off write late, when another has the lock and has
// written: that is refused, and nothing else is.
func TestFence(t *testing.T) {
	server := dynaserver.Start(t)
	client := direct(t, server.Addr())
	through, err := faultlink.New(server.Addr())
	require.NoError(t, err)
	t.Cleanup(through.Close)
	c, other := dial(t, url(through.Addr())+"&ttl=2s"), dial(t, url(server.Addr())+"&poll=20ms")
	t.Cleanup(through.Resume) // before the client is closed
	for name, write := range writers(t, client) {
		t.Run(name, func(t *testing.T) {
			_, err := client.DeleteItem(within(t), &awsdb.DeleteItemInput{TableName: aws.String("locks"), Key: attributes{"key": text("report")}})
			require.NoError(t, err)
			stored := func() string { return get(t, client, "report")["value"].(*types.AttributeValueMemberS).Value }

			first := lock(t, c, name)
			require.NoError(t, write(first, "first"), "there is no item")
			require.NoError(t, write(first, "again"), "of the same hold")
			through.Stall(faultlink.Both)
			second := lock(t, other, name)
			require.ErrorIs(t, context.Cause(first.Context()), recipes.ErrLost)
			require.NoError(t, write(second, "second"))
			var refused *types.ConditionalCheckFailedException
			require.ErrorAs(t, write(first, "late"), &refused)
			require.Equal(t, "second", stored())
			require.NoError(t, second.Unlock(within(t)))
			through.Resume()

			_, err = client.PutItem(within(t), &awsdb.PutItemInput{
				TableName: aws.String("locks"), Item: attributes{"key": text("report"), "value": text("old")},
			})
			require.NoError(t, err)
			require.NoError(t, write(second, "new"), "the item has no token yet")
			require.ErrorAs(t, write(first, "late"), &refused)
			require.Equal(t, "new", stored())
		})
	}
}
