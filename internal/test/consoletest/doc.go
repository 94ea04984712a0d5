// Package consoletest tests the web console as people use it: Debian's chromium, driven
// over its debugging protocol, against the real binary with stations on loopback. Every
// page that a test opens is watched: what breaks the content policy, an error in the
// console, an exception, or a request to anywhere but the gateway fails the test.
package consoletest
