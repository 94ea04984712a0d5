package firstboot

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"gatehouse/internal/fault"
	"gatehouse/internal/setup/tomlfile"
)

// refuse makes an error of one problem.
func refuse(file, format string, args ...any) error {
	return &tomlfile.Error{Problems: []tomlfile.Problem{{File: file, Text: fmt.Sprintf(format, args...)}}}
}

// problemsOf takes the problems out of any error.
func problemsOf(err error) []tomlfile.Problem {
	if e, ok := errors.AsType[*tomlfile.Error](err); ok {
		return e.Problems
	}
	return []tomlfile.Problem{{Text: sentence(err)}}
}

// sentence returns what people may see of an error.
func sentence(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Sentence != "" {
		return e.Sentence
	}
	return err.Error()
}

// cause words an error of the file system without the name of the system call.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func parentOf(path string) string { return filepath.Dir(path) }
