package dynamodb

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockctl/lockctl/recipes"
)

// A FenceCondition is what a write of the user's own item needs so that a former holder's
// is refused: with a *types.ConditionalCheckFailedException, before anything was written.
type FenceCondition struct {
	// Condition is for ConditionExpression: the item has no token yet, or none that is
	// larger. It is in parentheses, to be joined with others by AND.
	Condition string
	// Set is for the SET clause of an UpdateExpression: it stores the token. A PutItem
	// needs Token in the item instead.
	Set string
	// Names and Values are for ExpressionAttributeNames and ExpressionAttributeValues, to
	// which the user's own can be added: they are "#fence" and ":fence".
	Names  map[string]string
	Values map[string]types.AttributeValue
	// Token is the value of the attribute.
	Token types.AttributeValue
}

// Fence makes the condition of a hold, for an item that keeps the last token in an
// attribute of that name, in any table and region. The store of the lock may be another
// one than DynamoDB. It sends nothing. Every write of the item must have it, and an item
// that was deleted remembers nothing.
//
//	fence := dynamodb.Fence(hold, "token")
//	_, err := client.UpdateItem(ctx, &awsdynamodb.UpdateItemInput{
//		TableName: &table, Key: key,
//		UpdateExpression:          aws.String("SET total = :total, " + fence.Set),
//		ConditionExpression:       &fence.Condition,
//		ExpressionAttributeNames:  fence.Names,
//		ExpressionAttributeValues: fence.Values, // and ":total"
//	})
//
// It is the same in a transaction: the Put, Update, Delete and ConditionCheck of
// TransactWriteItems take these parts as well, and one that is refused refuses all. A
// ConditionCheck stores no token, so use it beside a write that does.
func Fence(hold *recipes.Hold, attribute string) FenceCondition {
	token := number(int64(hold.Token()))
	return FenceCondition{
		Condition: "(attribute_not_exists(#fence) OR #fence <= :fence)",
		Set:       "#fence = :fence",
		Names:     map[string]string{"#fence": attribute},
		Values:    attributes{":fence": token},
		Token:     token,
	}
}
