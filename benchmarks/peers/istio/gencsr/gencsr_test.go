// Package gencsr times Istio's own key and CSR generation, one at a time.
package gencsr

import (
	"testing"

	"istio.io/istio/security/pkg/pki/util"
)

const identity = "spiffe://cluster.local/ns/default/sa/bench"

func BenchmarkPeerGenCSRECDSAP256(b *testing.B) {
	generate(b, util.CertOptions{Host: identity, ECSigAlg: util.EcdsaSigAlg})
}

func BenchmarkPeerGenCSRRSA2048(b *testing.B) {
	generate(b, util.CertOptions{Host: identity, RSAKeySize: 2048})
}

func generate(b *testing.B, options util.CertOptions) {
	for range b.N {
		if _, _, err := util.GenCSR(options); err != nil {
			b.Fatal(err)
		}
	}
}
