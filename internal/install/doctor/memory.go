package doctor

import (
	"context"
	"fmt"
)

const (
	// memoryLow is how little memory may be left, in bytes, beside a tenth of all.
	memoryLow = 32 << 20

	// What the firmware of a Raspberry Pi says of its power supply.
	voltageLowNow = 1 << 0
	voltageWasLow = 1 << 16
)

// checkMemory looks at the memory of the machine and of the gateway, and at the power
// supply where the machine tells.
func checkMemory(_ context.Context, p *patient, s *sheet) {
	m := p.Machine.Memory()
	if m.Total == 0 {
		s.skip("the system does not say how much memory it has", "")
		return
	}
	evidence := []string{fmt.Sprintf("%s available of %s", size(m.Available), size(m.Total))}
	if m.SwapTotal > 0 {
		evidence = append(evidence, fmt.Sprintf("%s of %s swap used", size(m.SwapTotal-m.SwapFree), size(m.SwapTotal)))
	}
	if p.process != 0 {
		if used := p.Machine.Process(p.process).Resident; used > 0 {
			evidence = append(evidence, "the gateway uses "+size(used))
		}
	}
	if m.Available < memoryLow || m.Available < m.Total/10 {
		s.warn("The machine has little memory left", "see what takes it: ps aux --sort=-rss | head", evidence...)
	}
	if group := p.unit["ControlGroup"]; group != "" {
		if killed := p.Machine.KilledForMemory(group); killed > 0 {
			s.warn("The gateway was killed for want of memory", "see what takes it: ps aux --sort=-rss | head; "+logCommand,
				append(evidence, "killed "+times(killed)+" since the service was started")...)
		}
	}
	checkPower(p, s)
	s.fine(fmt.Sprintf("%s available of %s", size(m.Available), size(m.Total)), evidence...)
}

// checkPower asks a Raspberry Pi whether its power supply is strong enough.
func checkPower(p *patient, s *sheet) {
	bits, known := p.Machine.Throttled()
	evidence := fmt.Sprintf("get_throttled %#x", bits)
	const mend = "give this board a stronger power supply and a short, thick cable: a weak one damages the memory card"
	switch {
	case !known:
	case bits&voltageLowNow != 0:
		s.warn("The power supply is too weak", mend, evidence)
	case bits&voltageWasLow != 0:
		s.warn("The power supply was too weak at least once since the start", mend, evidence)
	}
}
