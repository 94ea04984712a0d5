package main

import (
	"encoding/binary"
	"io"
	"unicode/utf16"
)

// firmwareVariable returns a text among the variables in the emulated machine's flash, ""
// if it is not there. (EDK II, AuthenticatedVariableFormat.h: a firmware volume with a
// store of variables, of which each begins with 0x55aa and its state.)
func firmwareVariable(from io.ReaderAt, name string) (string, error) {
	const (
		volumeHeader, storeHeader, header = 0x48, 28, 60
		added, inDeletion                 = 0x3f, 0x3e
	)
	store := make([]byte, 0x40000)
	if _, err := from.ReadAt(store, 0); err != nil {
		return "", err
	}
	le := binary.LittleEndian
	if string(store[0x28:0x2c]) != "_FVH" {
		// The firmware of the emulator erases all of it to change a bit back (VirtNorFlashDxe),
		// and begins anew after a power cut there.
		return "", nil
	}
	value := ""
	for at := volumeHeader + storeHeader; at+header < len(store) && le.Uint16(store[at:]) == 0x55aa; {
		nameSize, size := int(le.Uint32(store[at+36:])), int(le.Uint32(store[at+40:]))
		if nameSize < 0 || size < 0 || at+header+nameSize+size > len(store) {
			break
		}
		this := text16(store[at+header : at+header+nameSize])
		if state := store[at+2]; this == name && (state == added || state == inDeletion && value == "") {
			value = text16(store[at+header+nameSize : at+header+nameSize+size])
		}
		at = (at + header + nameSize + size + 3) &^ 3
	}
	return value, nil
}

func text16(raw []byte) string {
	var units []uint16
	for ; len(raw) >= 2; raw = raw[2:] {
		if unit := binary.LittleEndian.Uint16(raw); unit != 0 {
			units = append(units, unit)
		}
	}
	return string(utf16.Decode(units))
}
