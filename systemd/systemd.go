// Package systemd holds the units of the gateway, so that the packages and
// "gatehouse service install" set up the very same ones. It knows nothing of what
// the units run.
package systemd

import "embed"

// The units, by the names under which systemd knows them.
const (
	Service    = "gatehouse.service"
	Socket     = "gatehouse.socket"
	Redirect   = "gatehouse-redirect.socket" // starts and stops with Socket
	Site       = "gatehouse-site.service"
	Notice     = "gatehouse-notice.service"
	NoticePath = "gatehouse-notice.path"
)

// Files are the units and their company: gatehouse.service, gatehouse.socket,
// gatehouse-redirect.socket, gatehouse-site.service, gatehouse-notice.path,
// gatehouse-notice.service, gatehouse.sysusers (sysusers.d(5)) and gatehouse.tmpfiles (tmpfiles.d(5)). The service runs /usr/bin/gatehouse.
//
//go:embed gatehouse.service gatehouse.socket gatehouse-redirect.socket gatehouse-site.service gatehouse-notice.path gatehouse-notice.service gatehouse.sysusers gatehouse.tmpfiles
var Files embed.FS
