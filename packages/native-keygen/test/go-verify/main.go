// Says what Go makes of certificate chains: a JSON case a line in, a line out that is empty or the reason against it.
package main

import (
	"bufio"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// DER, leaf first.
type question struct {
	Chain [][]byte `json:"chain"`
	Roots [][]byte `json:"roots"`
	// Milliseconds since the epoch.
	Now int64 `json:"now"`
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<22)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			panic(err)
		}
		reason := ""
		if err := verify(q); err != nil {
			reason = strings.Join(strings.Fields(err.Error()), " ")
		}
		fmt.Fprintln(out, reason)
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}

func verify(q question) error {
	leaf, err := x509.ParseCertificate(q.Chain[0])
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{
		Roots:         pool(q.Roots),
		Intermediates: pool(q.Chain[1:]),
		CurrentTime:   time.UnixMilli(q.Now),
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		options.KeyUsages = []x509.ExtKeyUsage{usage}
		if _, err := leaf.Verify(options); err != nil {
			return err
		}
	}
	return nil
}

// As a peer reads what is pushed: one certificate that Go cannot parse is left out, as AppendCertsFromPEM does.
func pool(ders [][]byte) *x509.CertPool {
	certificates := x509.NewCertPool()
	for _, der := range ders {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			certificates.AddCert(certificate)
		}
	}
	return certificates
}
