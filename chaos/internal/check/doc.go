//go:build linux

// Package check decides whether a history keeps what the recipes promise.
//
// What a process did counts by the machine's one clock. A hold counts as held from the
// moment at which its process recorded the grant until it recorded that it is about to
// release it or that it was lost, as long as the process ran: a process that was
// paused, killed or not given the processor can't know, and is what fencing is for.
// Such times are counted and reported, and excuse an overlap; nothing else does.
//
// Results that are not known, because the reply was lost or the process was killed,
// count as possibly applied, at any time from the request on, for ever.
package check
