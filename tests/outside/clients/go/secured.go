package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// secured says who the client is, as CLIENT_PROPERTIES has it in librdkafka's words.
func secured() []kgo.Opt {
	file := os.Getenv("CLIENT_PROPERTIES")
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	given := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, found := strings.Cut(line, "="); found {
			given[name] = value
		}
	}
	var options []kgo.Opt
	if strings.HasSuffix(given["security.protocol"], "SSL") {
		options = append(options, kgo.DialTLSConfig(trust(given)))
	}
	user, password := given["sasl.username"], given["sasl.password"]
	switch given["sasl.mechanism"] {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()))
	}
	return options
}

func trust(given map[string]string) *tls.Config {
	authority, err := os.ReadFile(given["ssl.ca.location"])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	config := &tls.Config{RootCAs: pool}
	if chain := given["ssl.certificate.location"]; chain != "" {
		pair, err := tls.LoadX509KeyPair(chain, given["ssl.key.location"])
		if err != nil {
			panic(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func wrongPassword(ctx context.Context, _ string) error {
	own := client(kgo.RequestRetries(0))
	defer own.Close()
	if err := own.Ping(ctx); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		return fmt.Errorf("not refused as it should be: %v", err)
	}
	return nil
}

func unknownAuthority(ctx context.Context, _ string) error {
	own := client(kgo.RequestRetries(0))
	defer own.Close()
	var unknown x509.UnknownAuthorityError
	if err := own.Ping(ctx); !errors.As(err, &unknown) {
		return fmt.Errorf("not refused as it should be: %v", err)
	}
	return nil
}
