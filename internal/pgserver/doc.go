// Package pgserver runs real PostgreSQL servers for tests: each on a free port of
// the loopback interface, with data in a temporary directory, from what Debian's
// package postgresql installs. It lets everybody in and, unless asked to, does not flush to
// disk; everything else is as it comes.
//
// A machine without PostgreSQL skips the test, unless the environment's CI says
// that nothing may be skipped.
package pgserver
