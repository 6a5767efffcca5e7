package etcdserver_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockctl/lockctl/internal/etcdserver"
)

// ask asks the server by HTTP, as a web page does, or one whose host's name leads to
// this machine now.
func ask(t *testing.T, method, url, host, body string) (status int, header http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Host = host
	request.Header.Set("Origin", "https://evil.example")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	return response.StatusCode, response.Header
}

func TestNothingForWebPages(t *testing.T) {
	server, err := etcdserver.Start(t.Context(), etcdserver.Options{Dir: t.TempDir(), NoSync: true})
	require.NoError(t, err)
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}})
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Put(t.Context(), "a", "1")
	require.NoError(t, err)

	url := "http://" + server.Addr()
	for path, body := range map[string]string{
		"range": `{"key":"YQ=="}`, "put": `{"key":"YQ==","value":"Mg=="}`, "deleterange": `{"key":"YQ=="}`,
	} {
		status, header := ask(t, http.MethodPost, url+"/v3/kv/"+path, "", body)
		require.Equal(t, http.StatusNotFound, status, path)
		require.Empty(t, header.Get("Access-Control-Allow-Origin"), path)
	}
	stored, err := client.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "1", string(stored.Kvs[0].Value))

	own, _ := ask(t, http.MethodGet, url+"/metrics", "", "")
	require.Equal(t, http.StatusOK, own)
	rebound, _ := ask(t, http.MethodGet, url+"/metrics", "evil.example", "")
	require.Equal(t, http.StatusMisdirectedRequest, rebound)
}
