// Package memory is an engine inside the process. It is the reference for
// authors of engines, and lets programs test what they build on recipes without
// a server, in virtual time too (testing/synctest).
//
// A [Server] is the service; clients of one process share it and exclude each
// other. A [Link] between a client and the server can be disturbed.
//
// # Guarantees
//
// Those of package recipes, among the clients of one Server.
//
// # Non-guarantees
//
// Nothing is stored and nothing leaves the process.
package memory
