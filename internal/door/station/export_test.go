package station

// Forecast is for tests.
var Forecast = forecast
