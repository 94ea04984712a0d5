// Package service makes a program that was copied by hand a service of systemd, with the
// units of the Debian package, and removes that service again. It starts, stops and
// describes the service also where the package has installed it.
//
// A first installation that fails removes the files that it wrote. Starting, stopping and
// asking go through github.com/kardianos/service. The package knows nothing of what runs
// inside the service. Only the command line uses it, as root.
package service
