package updates

import (
	"os"
	"runtime"

	"gatehouse/internal/board/slot"
	"gatehouse/internal/fault"
)

const (
	// packagedProgram is where the Debian package has the program, and packagedUnit where it
	// alone has the unit.
	packagedProgram = "/usr/bin/gatehouse"
	packagedUnit    = "/usr/lib/systemd/system/gatehouse.service"
)

// Advice says, as one complete sentence, how a system is updated that was not started from
// an image with two slots.
func Advice() string {
	if _, err := slot.Open(); fault.Is(err, fault.Conflict) { // an older image
		return fault.Sentence(err) + "."
	}
	program, _ := os.Executable() // then it is not the package's
	_, err := os.Stat(packagedUnit)
	return adviceFor(program, err == nil)
}

func adviceFor(program string, debian bool) string {
	if program != packagedProgram || !debian {
		return "This system is not an image of Gatehouse: to update it, copy the program of the new version over the old one and run \"sudo gatehouse service install\"."
	}
	arch := runtime.GOARCH
	if arch == "arm" {
		arch = "armhf"
	}
	return "This system is updated by its package: sudo apt-get install ./gatehouse_VERSION_" + arch + ".deb"
}
