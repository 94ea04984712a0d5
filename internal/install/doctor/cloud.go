package doctor

import (
	"context"
	"fmt"
)

// checkCloud relays what the gateway reports of its cloud link.
func checkCloud(_ context.Context, g *subject, s *sheet) {
	g.relay(s, "cloud-")
	link := g.status.Cloud
	switch {
	case g.runs() && link == nil, !g.runs() && g.broken == nil && g.settings.Cloud.URL == "":
		s.fine("There is no cloud link; nothing depends on one")
	case !g.runs():
		s.skip("only a running gateway knows its cloud link", "")
	case len(link.Keys) == 0:
		s.notice("No key is trusted: commands from the cloud are refused", "gatehouse cloud keygen, and its line into keys of [cloud]", "broker "+link.URL)
	case !link.Connected:
		s.notice("The cloud link has been down since "+moment(link.Since.Time)+"; doors open without it", "gatehouse cloud test", "broker "+link.URL, link.Error)
	default:
		s.fine("It is connected since "+moment(link.Since.Time), "broker "+link.URL, fmt.Sprintf("delivered up to record %d, %d pending", link.Delivered, link.Waiting))
	}
}
