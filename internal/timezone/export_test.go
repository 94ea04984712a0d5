package timezone

// Embedded gives the data of a zone out of the copy.
func Embedded(name string) ([]byte, error) { return embedded(name) }
