// Answers "may A reach B's port" for NetworkPolicies, by the policy engine of cyclonus.
//
// Reads one JSON object from standard input: `policies` as the API server has them, and `questions`,
// each with `source`, `target`, `port` and `protocol`. A peer has an `ip`, and if it is a pod its
// `namespace`, `namespaceLabels` and `labels`. Writes a JSON list of booleans.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/mattfenwick/cyclonus/pkg/matcher"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

type peer struct {
	IP              string            `json:"ip"`
	Namespace       string            `json:"namespace"`
	NamespaceLabels map[string]string `json:"namespaceLabels"`
	Labels          map[string]string `json:"labels"`
}

type question struct {
	Source   peer            `json:"source"`
	Target   peer            `json:"target"`
	Port     int             `json:"port"`
	Protocol corev1.Protocol `json:"protocol"`
}

func (p peer) traffic() *matcher.TrafficPeer {
	if p.Namespace == "" {
		return &matcher.TrafficPeer{IP: p.IP}
	}
	return &matcher.TrafficPeer{IP: p.IP, Internal: &matcher.InternalPeer{
		Namespace: p.Namespace, NamespaceLabels: p.NamespaceLabels, PodLabels: p.Labels,
	}}
}

func main() {
	var asked struct {
		Policies  []*networkingv1.NetworkPolicy `json:"policies"`
		Questions []question                    `json:"questions"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	policy := matcher.BuildNetworkPolicies(false, asked.Policies)
	answers := make([]bool, 0, len(asked.Questions))
	for _, each := range asked.Questions {
		answers = append(answers, policy.IsTrafficAllowed(&matcher.Traffic{
			Source:       each.Source.traffic(),
			Destination:  each.Target.traffic(),
			ResolvedPort: each.Port,
			Protocol:     each.Protocol,
		}).IsAllowed())
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}
