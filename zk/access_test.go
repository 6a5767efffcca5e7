package zk

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	gozk "github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/internal/zkserver"
	"github.com/lockctl/lockctl/recipes"
)

func testDigest(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	owner := dial(t, urlFor(s, root)+"?user=owner&password-file="+file, nil)
	hold := lock(t, owner, "private")

	admin := connect(t, s.Addrs(), 20*time.Second)
	want := gozk.DigestACL(gozk.PermAll, "owner", "secret")
	require.NoError(t, admin.AddAuth("digest", []byte("owner:secret")))
	for _, path := range []string{root, root + "/lock", root + "/lock/private"} {
		acl, _, err := admin.GetACL(path)
		require.NoError(t, err)
		require.Equal(t, want, acl, path)
	}
	children, _, err := admin.Children(root + "/lock/private")
	require.NoError(t, err)
	require.Len(t, children, 1)
	acl, _, err := admin.GetACL(root + "/lock/private/" + children[0])
	require.NoError(t, err)
	require.Equal(t, want, acl)

	for name, opts := range map[string]*Options{
		"another user":   {User: "other", Password: "secret"},
		"wrong password": {User: "owner", Password: "guess"},
		"nobody":         nil,
	} {
		_, err := Dial(within(t), urlFor(s, root), opts)
		require.ErrorIs(t, err, recipes.ErrDenied, name)
		require.NotContains(t, err.Error(), "guess")
	}
	same := dial(t, urlFor(s, root), &Options{User: "owner", Password: "secret"})
	m, err := same.Mutex("private", nil)
	require.NoError(t, err)
	_, err = m.TryLock(within(t))
	require.ErrorIs(t, err, recipes.ErrHeld)
	require.NoError(t, hold.Unlock(within(t)))
}

func testACL(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	acl := append(gozk.DigestACL(gozk.PermAll, "owner", "secret"), gozk.WorldACL(gozk.PermRead)...)
	owner := dial(t, urlFor(s, root), &Options{User: "owner", Password: "secret", ACL: acl})
	hold := lock(t, owner, "shown")

	reader := dial(t, urlFor(s, root), nil)
	locks, err := reader.Objects(within(t), recipes.Filter{})
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.Equal(t, owner.Owner(), locks[0].Holders()[0].Owner)
	m, err := reader.Mutex("shown", nil)
	require.NoError(t, err)
	_, err = m.Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrDenied)
	m, err = reader.Mutex("new", nil)
	require.NoError(t, err)
	_, err = m.Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrDenied, "nor may it make a queue")
	require.NoError(t, hold.Unlock(within(t)))
}

// testReadOnlyRoot has nobody create next to the root, as where an administrator
// made it for the application.
func testReadOnlyRoot(t *testing.T, s *zkserver.Server) {
	parent := rootFor(t)
	admin := connect(t, s.Addrs(), 20*time.Second)
	_, err := admin.Create(parent, nil, gozk.FlagPersistent, gozk.WorldACL(gozk.PermRead|gozk.PermAdmin))
	require.NoError(t, err)
	c := dial(t, urlFor(s, parent+"/app"), nil)
	m, err := c.Mutex("any", nil)
	require.NoError(t, err)
	_, err = m.Lock(within(t))
	require.ErrorIs(t, err, recipes.ErrDenied)

	_, err = admin.SetACL(parent, gozk.WorldACL(gozk.PermAll), -1)
	require.NoError(t, err)
	_, err = admin.Create(parent+"/app", nil, gozk.FlagPersistent, gozk.WorldACL(gozk.PermAll))
	require.NoError(t, err)
	_, err = admin.SetACL(parent, gozk.WorldACL(gozk.PermRead|gozk.PermAdmin), -1)
	require.NoError(t, err)
	require.NoError(t, lock(t, c, "any").Unlock(within(t)))
}

// testForeignLocks lists and watches a root where one lock is another's, and so is the
// node that all groups are below.
func testForeignLocks(t *testing.T, s *zkserver.Server) {
	root := rootFor(t)
	admin := connect(t, s.Addrs(), 20*time.Second)
	for _, path := range []string{root, root + "/lock"} {
		_, err := admin.Create(path, nil, gozk.FlagPersistent, gozk.WorldACL(gozk.PermAll))
		require.NoError(t, err)
	}
	other := dial(t, urlFor(s, root), &Options{User: "other", Password: "secret"})
	theirs := lock(t, other, "theirs")
	group, err := other.Group("theirs")
	require.NoError(t, err)
	member, err := group.Join(within(t), nil)
	require.NoError(t, err)
	c := dial(t, urlFor(s, root), nil)
	ours := lock(t, c, "ours")

	locks, err := c.Objects(within(t), recipes.Filter{})
	require.NoError(t, err)
	require.Len(t, locks, 1)
	require.Equal(t, "ours", locks[0].Name)
	_, err = c.Objects(within(t), recipes.Filter{Kinds: []recipes.Kind{recipes.KindGroup}})
	require.ErrorIs(t, err, recipes.ErrDenied)
	_, err = c.Lock(within(t), "theirs")
	require.ErrorIs(t, err, recipes.ErrDenied)
	for change, err := range c.Watch(within(t), recipes.Filter{}) {
		require.NoError(t, err)
		if change.Kind == recipes.WatchSynced {
			break
		}
		require.Equal(t, "ours", change.Object.Name)
	}
	require.NoError(t, ours.Unlock(within(t)))
	require.NoError(t, theirs.Unlock(within(t)))
	require.NoError(t, member.Leave(within(t)))
}

// TestTLS runs a server that proves who it is and asks its clients to.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := newAuthority(t)
	ca := writePEM(t, dir, "ca.pem", authority.cert)
	serverCert, serverKey := authority.issue(t)
	clientCert, clientKey := authority.issue(t)
	cert, key := writePEM(t, dir, "client.pem", clientCert), writePEM(t, dir, "client-key.pem", clientKey)
	secure := zkserver.FreePort(t)
	zkserver.Start(t, 1,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPort="+itoa(secure), "secureClientPortAddress=127.0.0.1",
		"ssl.keyStore.location="+writePEM(t, dir, "server.pem", serverKey, serverCert), "ssl.keyStore.type=PEM",
		"ssl.trustStore.location="+ca, "ssl.trustStore.type=PEM")
	url := "zk://127.0.0.1:" + itoa(secure) + "/tls?"
	identity := "&cert=" + cert + "&key=" + key

	c := dial(t, url+"cacert="+ca+identity, nil)
	require.NoError(t, lock(t, c, "secure").Unlock(within(t)))

	for problem, parameters := range map[string]string{
		"unknown authority": "tls=true" + identity,
		"another.example":   "server-name=another.example&cacert=" + ca + identity,
		"certificate":       "cacert=" + ca, // none of our own
	} {
		_, err := Dial(within(t), url+parameters, patient(nil))
		require.ErrorIs(t, err, recipes.ErrUnavailable)
		require.ErrorContains(t, err, problem)
	}
}

// authority signs certificates.
type authority struct {
	cert *pem.Block
	x509 *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{cert: &pem.Block{Type: "CERTIFICATE", Bytes: der}, x509: parsed, key: key}
}

// issue makes a certificate for 127.0.0.1 and its key.
func (a *authority) issue(t *testing.T) (cert, private *pem.Block) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "localhost"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.x509, key.Public(), a.key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return &pem.Block{Type: "CERTIFICATE", Bytes: der}, &pem.Block{Type: "PRIVATE KEY", Bytes: secret}
}

func writePEM(t *testing.T, dir, name string, blocks ...*pem.Block) string {
	t.Helper()
	var data []byte
	for _, b := range blocks {
		data = append(data, pem.EncodeToMemory(b)...)
	}
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}
