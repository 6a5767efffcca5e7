package etcd_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockctl/lockctl/etcd"
	"github.com/lockctl/lockctl/internal/etcdtest"
	"github.com/lockctl/lockctl/recipes"
)

// authority signs certificates.
type authority struct {
	dir  string
	file string // its own certificate
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a.file, _ = a.issue(t, name, template)
	return a
}

// issue writes a certificate and its key to files. The first one is the
// authority's own.
func (a *authority) issue(t testing.TB, name string, template *x509.Certificate) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	if a.cert == nil {
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(t, err)
		a.key = key
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "PRIVATE KEY", pkcs8)
	return certFile, keyFile
}

func writePEM(t testing.TB, file, kind string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
}

func (a *authority) server(t testing.TB, names ...string) (certFile, keyFile string) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    names,
	}
	if names == nil {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	return a.issue(t, "server", template)
}

func (a *authority) client(t testing.TB) (certFile, keyFile string) {
	return a.issue(t, "client", &x509.Certificate{
		Subject: pkix.Name{CommonName: "client"}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// startTLS runs a server that demands certificates of the authority.
func startTLS(t testing.TB, ca *authority, names ...string) *etcdtest.Server {
	t.Helper()
	o := etcdtest.Options()
	o.CertFile, o.KeyFile = ca.server(t, names...)
	o.ClientCAFile = ca.file
	return etcdtest.StartWith(t, o)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	server := startTLS(t, ca)
	cert, key := ca.client(t)
	url := "etcd://" + server.Addr() + "?cacert=" + ca.file + "&cert=" + cert + "&key=" + key
	a, b := dial(t, url, nil), dial(t, url, nil)
	hold := lock(t, mutex(t, a, "job"))
	waiter := lockAside(context.Background(), mutex(t, b, "job"))
	queued(t, a, 2)
	unlock(t, hold)
	unlock(t, waiter.granted(t))
	v := view(t, a)
	hold = lock(t, mutex(t, b, "job"))
	v.until(t, "the lock", func() bool { return v.locks["job"] == 1 })
	unlock(t, hold)

	pair, err := tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}
	unlock(t, lock(t, mutex(t, dial(t, "etcd://"+server.Addr(), &etcd.Options{TLS: config}), "job")))
}

func TestTLSRefusals(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	server := startTLS(t, ca)
	cert, key := ca.client(t)
	otherCert, otherKey := other.client(t)
	url := "etcd://" + server.Addr()
	cases := []struct{ name, url, says string }{
		{"wrong authority", url + "?cacert=" + other.file + "&cert=" + cert + "&key=" + key, "certificate signed by unknown authority"},
		{"the system's authorities", url + "?tls=true&cert=" + cert + "&key=" + key, "certificate signed by unknown authority"},
		{"no client certificate", url + "?cacert=" + ca.file, "certificate required"},
		{"client certificate of another authority", url + "?cacert=" + ca.file + "&cert=" + otherCert + "&key=" + otherKey, "certificate"},
		{"another name", url + "?server-name=elsewhere&cacert=" + ca.file + "&cert=" + cert + "&key=" + key, "elsewhere"},
		{"no TLS", url, ""},
	}
	for _, c := range cases {
		for _, opts := range credentials() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				opts.Client.ConnectTimeout = 2 * time.Second
				_, err := etcd.Dial(context.Background(), c.url, opts)
				require.ErrorIs(t, err, recipes.ErrUnavailable)
				require.ErrorContains(t, err, c.says)
				require.ErrorContains(t, err, server.Addr())
				require.NotContains(t, err.Error(), "rpc error")
			})
		}
	}
}

// TestTLSServerName gives the name that the certificate has, other than the
// address.
func TestTLSServerName(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	server := startTLS(t, ca, "etcd.example")
	cert, key := ca.client(t)
	url := "etcd://" + server.Addr() + "?cacert=" + ca.file + "&cert=" + cert + "&key=" + key
	unlock(t, lock(t, mutex(t, dial(t, url+"&server-name=etcd.example", nil), "job")))
	opts := &etcd.Options{}
	opts.Client.ConnectTimeout = time.Second
	_, err := etcd.Dial(context.Background(), url, opts)
	require.ErrorIs(t, err, recipes.ErrUnavailable)
	require.ErrorContains(t, err, "127.0.0.1")
}
