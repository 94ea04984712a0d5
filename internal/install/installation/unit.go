package installation

import (
	"errors"
	"fmt"
	"strings"

	"gatehouse/configs"
	"gatehouse/systemd"
)

// The units, by the names under which systemd knows them.
const (
	serviceUnit = "gatehouse.service"
	socketUnit  = "gatehouse.socket"
	siteUnit    = "gatehouse-site.service"
	// redirectUnit comes and goes with socketUnit.
	redirectUnit = "gatehouse-redirect.socket"
	// noticeUnit and noticePath come with serviceUnit.
	noticeUnit = "gatehouse-notice.service"
	noticePath = "gatehouse-notice.path"
)

// Where things are.
const (
	unitFolder   = "/etc/systemd/system"
	usersFile    = "/etc/sysusers.d/gatehouse.conf"
	foldersFile  = "/etc/tmpfiles.d/gatehouse.conf"
	configFolder = "/etc/gatehouse"
	configFile   = configFolder + "/gatehouse.toml"
	dataFolder   = "/var/lib/gatehouse"
	issueFolder  = "/etc/issue.d"
	issueLink    = issueFolder + "/gatehouse.issue"
)

// user is whom the service runs as.
const user = "gatehouse"

const (
	// packagedProgram is what the units of the packages run.
	packagedProgram = "/usr/bin/gatehouse"

	// pathAction is where the template engine puts the path of the program.
	pathAction = "{{Path}}"

	// mark begins every file that was written here, so that it can be told from
	// those of others.
	mark = "# Written by \"gatehouse service install\", which writes it anew at each run.\n"
)

// allUnits lists the units that are enabled and looked at; redirectUnit follows
// socketUnit by itself.
func allUnits() []string { return []string{socketUnit, siteUnit, serviceUnit} }

func unitPath(unit string) string { return unitFolder + "/" + unit }

// ownFiles are the files that an installation writes and an uninstallation removes.
func ownFiles() []string {
	return []string{unitPath(serviceUnit), unitPath(socketUnit), unitPath(redirectUnit), unitPath(siteUnit), unitPath(noticeUnit), unitPath(noticePath), usersFile, foldersFile}
}

// shipped gives a file of package systemd, marked as ours.
func shipped(name string) (string, error) {
	text, err := systemd.Files.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("reading the unit within this program: %w", err)
	}
	return mark + string(text), nil
}

// shippedConfiguration gives the annotated configuration.
func shippedConfiguration() (string, error) {
	text, err := configs.Files.ReadFile("gatehouse.toml")
	if err != nil {
		return "", fmt.Errorf("reading the configuration within this program: %w", err)
	}
	return string(text), nil
}

// template gives the unit as a template of github.com/kardianos/service, which puts
// the program's path where the package's unit names its own. That library creates
// the file before it reads the template, so a template that it cannot read must not
// get there: whatever its engine would take for an action is refused.
func template(unit string) (string, error) {
	text, err := shipped(unit)
	if err != nil {
		return "", err
	}
	return asTemplate(text)
}

func asTemplate(text string) (string, error) {
	switch {
	case strings.Contains(text, "{{"), strings.Contains(text, "}}"):
		return "", errors.New("the unit within this program has double braces, which are no text in a template")
	case !strings.Contains(text, "\nExecStart="+packagedProgram+" "):
		return "", fmt.Errorf("the unit within this program does not start %s", packagedProgram)
	}
	return strings.ReplaceAll(text, packagedProgram, pathAction), nil
}

// render is what the template engine makes of our templates.
func render(template, executable string) string {
	return strings.ReplaceAll(template, pathAction, executable)
}

// unitText gives the unit for the program at executable.
func unitText(unit, executable string) (string, error) {
	if unit == socketUnit || unit == redirectUnit || unit == noticePath {
		return shipped(unit)
	}
	t, err := template(unit)
	if err != nil {
		return "", err
	}
	return render(t, executable), nil
}
