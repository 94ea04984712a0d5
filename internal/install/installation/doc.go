// Package installation makes a gateway whose program was copied by hand a service of
// systemd, with the units of the packages, and takes it away again. It starts, stops
// and describes the service also where a package has installed it.
//
// An installation that fails leaves nothing behind: each step says beforehand how it
// is undone. What systemd itself does goes through github.com/kardianos/service; this
// package does what that leaves open, and distrusts it where it can leave half a
// unit. It knows nothing of what runs inside the service. Only the command line uses
// it, as root.
package installation
