package installation

import (
	"context"
	"time"
)

// Control is what stands between this package and the library.
type Control = control

// Machine is what a test puts in the place of the real one.
type Machine struct {
	Root       string // of its file system
	UID        int    // of who runs the command
	Trusted    int    // to whom its files belong
	Executable string
	Check      func() error
	Control    Control
	Run        func(ctx context.Context, name string, args ...string) (string, error)
	Now        func() time.Time
}

// On gives the service of a machine.
func On(m Machine) *Service {
	return &Service{
		root: m.Root, executable: m.Executable, check: m.Check, uid: m.UID, trusted: m.Trusted,
		control: m.Control, run: m.Run, now: m.Now,
	}
}

// Template gives a unit as the library gets it, AsTemplate makes any text one.
func Template(unit string) (string, error) { return template(unit) }

// AsTemplate makes a template of a text.
func AsTemplate(text string) (string, error) { return asTemplate(text) }

// UnitText gives a unit for the program at executable.
func UnitText(unit, executable string) (string, error) { return unitText(unit, executable) }

// RunProgram runs a program of this machine.
func RunProgram(ctx context.Context, name string, args ...string) (string, error) {
	return runProgram(ctx, name, args...)
}
