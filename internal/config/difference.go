package config

import "reflect"

// Difference names the keys whose values differ, such as "mqtt.listen", in the order
// of the annotated file.
func Difference(a, b Config) []string {
	var paths []string
	for _, k := range keys() {
		if !reflect.DeepEqual(k.field(&a), k.field(&b)) {
			paths = append(paths, k.path)
		}
	}
	return paths
}
