package access

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"gatehouse/internal/site"
)

// deviceLen is the length of a device's secret in bytes.
const deviceLen = 32

// device is a client that has logged in to an account. It keeps a secret, of which the
// hash is stored, and shows it at its next login, which other clients then cannot delay or
// use up the failures of, those at the same address included. The secret permits nothing
// else, so a thief gains a few more wrong passwords, and it outlives new passwords and the
// end of all sessions.
type device struct {
	secret site.Secret
	sum    [32]byte
}

func newDevice() device {
	d, _ := readDevice(site.Secret(base64.RawURLEncoding.EncodeToString(random(deviceLen))))
	return d
}

// readDevice returns the device with that secret; ok is false for a text that is none.
func readDevice(shown site.Secret) (d device, ok bool) {
	if len(shown) != base64.RawURLEncoding.EncodedLen(deviceLen) {
		return device{}, false
	}
	return device{shown, sha256.Sum256([]byte(shown.Reveal()))}, true
}

// knows reports whether the account of that e-mail address was logged in to from the device
// within the life of a session, even if that session has ended since.
func (d *directory) knows(email site.Email, of device, now time.Time) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	a := d.emails[email]
	return a != nil && now.Before(a.devices[of.sum])
}

// KnownDevice returns the account of that e-mail address, if it was logged in to from the
// device that shows that secret and has failures left, else "". Quick.
func (s *Service) KnownDevice(email string, shown site.Secret) site.AccountID {
	a := s.newAttempt(email, Client{Device: shown})
	if !a.known() {
		return ""
	}
	account, _ := s.find(email)
	return account.ID
}

// addDevice makes a device known for its account. Of too many it forgets the one that
// logged in least recently, as the store does.
func (d *directory) addDevice(added site.LoginDevice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.accounts[added.Account]
	if a == nil {
		return
	}
	a.devices[added.Sum] = added.Until
	if len(a.devices) <= site.MaxLoginDevices {
		return
	}
	oldest := added.Sum
	for sum, until := range a.devices {
		if sum != added.Sum && (oldest == added.Sum || until.Before(a.devices[oldest])) {
			oldest = sum
		}
	}
	delete(a.devices, oldest)
}

// dropDevices forgets the devices that have not logged in for too long. The caller holds mu.
func (a *account) dropDevices(now time.Time) {
	for sum, until := range a.devices {
		if !now.Before(until) {
			delete(a.devices, sum)
		}
	}
}
