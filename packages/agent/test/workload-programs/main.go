// A workload that has its identity from the SPIFFE Workload API, by go-spiffe as it is: serves or calls over mutual TLS.
// It finds the socket by SPIFFE_ENDPOINT_SOCKET, and prints one line of JSON for each event.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

func main() {
	ctx := context.Background()
	var err error
	switch os.Args[1] {
	case "fetch":
		err = fetch(ctx)
	case "sources":
		err = sources(ctx, os.Args[2])
	case "watch":
		err = watch(ctx)
	case "serve":
		err = serve(ctx, os.Args[2])
	case "call":
		err = call(ctx, os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func say(event map[string]any) {
	line, _ := json.Marshal(event)
	fmt.Println(string(line))
}

// Every kind of call that there is, once.
func fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	client, err := workloadapi.New(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	svids, err := client.FetchX509SVIDs(ctx)
	if err != nil {
		return err
	}
	bundles, err := client.FetchX509Bundles(ctx)
	if err != nil {
		return err
	}
	ids := []string{}
	for _, svid := range svids {
		if _, _, err := svid.Marshal(); err != nil {
			return err
		}
		ids = append(ids, svid.ID.String())
	}
	domains := []string{}
	for _, bundle := range bundles.Bundles() {
		domains = append(domains, bundle.TrustDomain().IDString())
	}
	jwtBundles, err := client.FetchJWTBundles(ctx)
	if err != nil {
		return err
	}
	keys := map[string]int{}
	for _, bundle := range jwtBundles.Bundles() {
		keys[bundle.TrustDomain().IDString()] = len(bundle.JWTAuthorities())
	}
	_, jwt := client.FetchJWTSVID(ctx, jwtsvid.Params{Audience: "audience"})
	_, invalid := client.ValidateJWTSVID(ctx, "a.b.c", "audience")
	hints := []string{}
	for _, svid := range svids {
		hints = append(hints, svid.Hint)
	}
	say(map[string]any{
		"ids": ids, "hints": hints, "domains": domains, "keys": keys, "jwt": fmt.Sprint(jwt), "validate": fmt.Sprint(invalid),
	})
	return nil
}

// The sources that wait for every kind of bundle before they are there.
func sources(ctx context.Context, domain string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	jwt, err := workloadapi.NewJWTSource(ctx)
	if err != nil {
		return err
	}
	defer jwt.Close()
	all, err := workloadapi.NewBundleSource(ctx)
	if err != nil {
		return err
	}
	defer all.Close()
	trustDomain := spiffeid.RequireTrustDomainFromString(domain)
	keys, err := jwt.GetJWTBundleForTrustDomain(trustDomain)
	if err != nil {
		return err
	}
	bundle, err := all.GetBundleForTrustDomain(trustDomain)
	if err != nil {
		return err
	}
	_, refusal := jwt.FetchJWTSVID(ctx, jwtsvid.Params{Audience: "audience"})
	say(map[string]any{
		"keys": len(keys.JWTAuthorities()), "roots": len(bundle.X509Authorities()), "jwt": fmt.Sprint(refusal),
	})
	return nil
}

type watcher struct{}

func (watcher) OnX509ContextUpdate(update *workloadapi.X509Context) {
	svid := update.DefaultSVID()
	bundle, err := update.Bundles.GetX509BundleForTrustDomain(svid.ID.TrustDomain())
	if err != nil {
		say(map[string]any{"error": err.Error()})
		return
	}
	say(map[string]any{
		"id":     svid.ID.String(),
		"serial": svid.Certificates[0].SerialNumber.Text(16),
		"roots":  len(bundle.X509Authorities()),
	})
}

func (watcher) OnX509ContextWatchError(err error) {
	say(map[string]any{"error": err.Error()})
}

func watch(ctx context.Context) error {
	client, err := workloadapi.New(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.WatchX509Context(ctx, watcher{})
}

// Answers the identity of its peer.
func serve(ctx context.Context, allowed string) error {
	source, err := workloadapi.NewX509Source(ctx)
	if err != nil {
		return err
	}
	defer source.Close()
	config := tlsconfig.MTLSServerConfig(source, source, tlsconfig.AuthorizeID(spiffeid.RequireFromString(allowed)))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	say(map[string]any{"address": listener.Addr().String()})
	server := &http.Server{
		TLSConfig: config,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.TLS.PeerCertificates[0].URIs[0])
		}),
	}
	return server.ServeTLS(listener, "", "")
}

// Makes one handshake after the other, and prints the sums for each line on stdin; ends with stdin.
func call(ctx context.Context, address string, server string) error {
	source, err := workloadapi.NewX509Source(ctx)
	if err != nil {
		return err
	}
	defer source.Close()
	config := tlsconfig.MTLSClientConfig(source, source, tlsconfig.AuthorizeID(spiffeid.RequireFromString(server)))
	client := &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			asked <- struct{}{}
		}
	}()
	good, failures, issuers := 0, []string{}, map[string]bool{}
	for {
		issuer, err := handshake(client, address)
		if err == nil {
			good++
			issuers[issuer] = true
		} else if len(failures) < 10 {
			failures = append(failures, err.Error())
		}
		select {
		case _, more := <-asked:
			say(map[string]any{"good": good, "failures": failures, "issuers": len(issuers)})
			if !more {
				return nil
			}
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// The issuer key of the server's leaf.
func handshake(client *http.Client, address string) (string, error) {
	response, err := client.Get("https://" + address)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(string(body), "spiffe://") {
		return "", fmt.Errorf("an answer without a SPIFFE ID: %q", body)
	}
	leaf := response.TLS.PeerCertificates[0]
	return fmt.Sprintf("%x", leaf.AuthorityKeyId), nil
}
