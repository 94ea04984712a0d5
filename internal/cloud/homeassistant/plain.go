package homeassistant

import (
	"fmt"

	"gatehouse/internal/health"
	"gatehouse/internal/site"
)

// connected takes whether the broker is known to be the one that is meant, before the login.
func (s *session) connected(authenticated bool) {
	s.authenticated.Store(authenticated)
	s.judge(s.Stations.Stations())
}

// judge raises a condition while nothing authenticates the broker, and clears it else.
func (s *session) judge(stations []site.Station) {
	if s.authenticated.Load() {
		s.Health.Clear(health.HomeAssistantPlain)
		return
	}
	const advice = "Set url in [homeassistant] to tls://HOST:8883, and ca to the certificate that signs the broker's"
	summary := "The connection to Home Assistant's broker is not encrypted: any machine that answers at its address"
	if s.Broker.Username != "" {
		summary += " gets the gateway's password there, and"
	}
	set := 0
	for _, st := range stations {
		if st.HomeAssistant == site.HomeAssistantUnlock {
			set++
		}
	}
	switch {
	case s.PlainUnlock:
		summary += " opens every door that is set to state+unlock, because plain_unlock is set"
	case set > 0:
		summary += fmt.Sprintf(" would open doors, so state+unlock counts as state (stations: %d)", set)
	default:
		summary += " sees who opens which door"
	}
	s.Health.Raise(health.Condition{Code: health.HomeAssistantPlain, Severity: health.Warning, Summary: summary, Advice: advice})
}
