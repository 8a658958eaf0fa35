// Command sdspeer is Istio's agent reduced to what Livery is measured against: its secret manager, its client of Citadel
// and its SDS server, with one identity. Everything but the flags and signals below is Istio's own code.
//
// Signals: USR1 adds a new root to the trust bundle, USR2 pushes the certificate again.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	stdlog "log"
	"math/big"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"istio.io/istio/pkg/log"
	"istio.io/istio/pkg/security"
	"istio.io/istio/security/pkg/nodeagent/cache"
	"istio.io/istio/security/pkg/nodeagent/caclient/providers/citadel"
	"istio.io/istio/security/pkg/nodeagent/sds"
)

const trustDomain = "cluster.local"

var (
	socket    = flag.String("uds", "", "path that clients connect to: a link to the socket, whose path Istio fixes")
	folder    = flag.String("dir", "", "working directory (default: the value of --uds with .d)")
	caAddress = flag.String("ca", "127.0.0.1:15012", "address of the CA")
	caRoot    = flag.String("ca-root", "", "PEM file with the root of the CA")
	ecdsaKeys = flag.Bool("ecdsa", false, "ECDSA P-256 keys instead of RSA-2048")
	lifetime  = flag.Duration("ttl", 24*time.Hour, "lifetime to ask for")
	logLevel  = flag.String("log", "info", "info or none")
	namespace = flag.String("ns", "default", "namespace of the identity")
	account   = flag.String("sa", "sa-0", "service account of the identity")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		stdlog.Fatal(err)
	}
}

func run() error {
	if *socket == "" || *caRoot == "" {
		return fmt.Errorf("give --uds and --ca-root")
	}
	if err := prepareFolder(); err != nil {
		return err
	}
	if err := configureLog(); err != nil {
		return err
	}
	options := securityOptions()
	client, err := citadel.NewCitadelClient(options, &citadel.TLSOptions{RootCert: *caRoot})
	if err != nil {
		return err
	}
	manager, err := cache.NewSecretManagerClient(client, options)
	if err != nil {
		return err
	}
	defer manager.Close()
	server := sds.NewServer(options, manager, nil)
	defer server.Stop()
	manager.RegisterSecretHandler(server.OnSecretUpdate)
	return serveSignals(manager, server)
}

// prepareFolder changes into the working directory, where Istio makes its socket, and links to that.
func prepareFolder() error {
	target, err := filepath.Abs(*socket)
	if err != nil {
		return err
	}
	if *caRoot, err = filepath.Abs(*caRoot); err != nil {
		return err
	}
	if *folder == "" {
		*folder = target + ".d"
	}
	if err := os.MkdirAll(*folder, 0o755); err != nil {
		return err
	}
	if err := os.Chdir(*folder); err != nil {
		return err
	}
	path, err := filepath.Abs(security.GetIstioSDSServerSocketPath())
	if err != nil {
		return err
	}
	_ = os.Remove(target)
	return os.Symlink(path, target)
}

func configureLog() error {
	options := log.DefaultOptions()
	if *logLevel == "none" {
		for _, scope := range log.Scopes() {
			options.SetDefaultOutputLevel(scope.Name(), log.NoneLevel)
		}
		options.SetDefaultOutputLevel(log.OverrideScopeName, log.NoneLevel)
	}
	return log.Configure(options)
}

// securityOptions has the agent's own defaults, apart from what the flags say.
func securityOptions() *security.Options {
	options := &security.Options{
		CAEndpoint:                           *caAddress,
		CAProviderName:                       "Citadel",
		ClusterID:                            "Kubernetes",
		WorkloadNamespace:                    *namespace,
		ServiceAccount:                       *account,
		TrustDomain:                          trustDomain,
		WorkloadRSAKeySize:                   2048,
		SecretTTL:                            *lifetime,
		SecretRotationGracePeriodRatio:       0.5,
		SecretRotationGracePeriodRatioJitter: 0.01,
		FileDebounceDuration:                 100 * time.Millisecond,
		CertChainFilePath:                    security.DefaultCertChainFilePath,
		KeyFilePath:                          security.DefaultKeyFilePath,
		RootCertFilePath:                     security.DefaultRootCertFilePath,
	}
	if *ecdsaKeys {
		options.ECCSigAlg = "ECDSA"
	}
	return options
}

func serveSignals(manager *cache.SecretManagerClient, server *sds.Server) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT, syscall.SIGTERM)
	var bundle []byte
	for got := range signals {
		switch got {
		case syscall.SIGUSR1:
			root, err := newRoot()
			if err != nil {
				return err
			}
			bundle = append(bundle, root...)
			// Copied, since it is compared with the next one.
			if err := manager.UpdateConfigTrustBundle(append([]byte(nil), bundle...)); err != nil {
				return err
			}
		case syscall.SIGUSR2:
			server.OnSecretUpdate(security.WorkloadKeyCertResourceName)
		default:
			return nil
		}
	}
	return nil
}

func newRoot() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: fmt.Sprintf("root %d", now.UnixNano())},
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.AddDate(10, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
