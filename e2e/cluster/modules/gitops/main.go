// What Flux and Argo CD make of objects, by the libraries that they are made of.
//
//	gitops kstatus < objects.json
//	gitops argocd --checks argocd-cm.yaml < objects.json
//	    A JSON list of what each says of each object: `status` and `message`.
//	gitops apply --kubeconfig FILE [--timeout 5m] < manifests.yaml
//	    Applies as Flux's kustomize-controller does, and waits until all is Current or one has failed.
//	    One JSON object: `changes` by object, `applied_s`, `waited_s`, and `error` if it gave up.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Those of kustomize-controller.
const (
	pollEvery = 5 * time.Second
	group     = "kustomize.toolkit.fluxcd.io"
	manager   = "kustomize-controller"
)

type object = map[string]any

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

type outcome struct {
	Changes  map[string]string `json:"changes"`
	AppliedS float64           `json:"applied_s"`
	WaitedS  float64           `json:"waited_s"`
	Error    string            `json:"error,omitempty"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("write `gitops kstatus`, `gitops argocd` or `gitops apply`")
	}
	options := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	checks := options.String("checks", "", "a patch of argocd-cm with health checks")
	kubeconfig := options.String("kubeconfig", "", "the cluster to apply to")
	timeout := options.Duration("timeout", 5*time.Minute, "how long to wait, as in a Kustomization")
	if err := options.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	var answer any
	var err error
	switch os.Args[1] {
	case "kstatus":
		answer, err = judged(ofKstatus)
	case "argocd":
		var scripts map[string]string
		if scripts, err = healthScripts(*checks); err == nil {
			answer, err = judged(func(obj object) (verdict, error) { return ofArgoCD(obj, scripts) })
		}
	case "apply":
		answer, err = apply(*kubeconfig, *timeout)
	default:
		log.Fatalf("there is no command %s; write kstatus, argocd or apply", os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		log.Fatal(err)
	}
}

func judged(judge func(object) (verdict, error)) ([]verdict, error) {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return nil, err
	}
	// As clients of a cluster read objects: whole numbers stay whole numbers.
	var objects []any
	if err := utiljson.Unmarshal(text, &objects); err != nil {
		return nil, err
	}
	found := []verdict{}
	for _, each := range objects {
		obj, isObject := each.(object)
		if !isObject {
			return nil, fmt.Errorf("%v is not an object", each)
		}
		one, err := judge(obj)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

func ofKstatus(obj object) (verdict, error) {
	result, err := status.Compute(&unstructured.Unstructured{Object: obj})
	if err != nil {
		return verdict{}, err
	}
	return verdict{result.Status.String(), result.Message}, nil
}

func apply(kubeconfig string, timeout time.Duration) (*outcome, error) {
	objects, err := utils.ReadObjects(os.Stdin)
	if err != nil {
		return nil, err
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return nil, err
	}
	resources, err := connected(kubeconfig)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	changes, err := resources.ApplyAllStaged(context.Background(), objects, ssa.DefaultApplyOptions())
	if err != nil {
		return &outcome{AppliedS: time.Since(began).Seconds(), Error: err.Error()}, nil
	}
	applied := time.Now()
	found := &outcome{Changes: map[string]string{}, AppliedS: applied.Sub(began).Seconds()}
	for _, entry := range changes.Entries {
		found.Changes[entry.Subject] = string(entry.Action)
	}
	wait := ssa.WaitOptions{Interval: pollEvery, Timeout: timeout, FailFast: true}
	if err := resources.WaitForSet(changes.ToObjMetadataSet(), wait); err != nil {
		found.Error = err.Error()
	}
	found.WaitedS = time.Since(applied).Seconds()
	return found, nil
}

func connected(kubeconfig string) (*ssa.ResourceManager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(kube, kube.RESTMapper(), polling.Options{})
	return ssa.NewResourceManager(kube, poller, ssa.Owner{Field: manager, Group: group}), nil
}
