package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

const checkPrefix = "resource.customizations.health."

// What Argo CD lets a health check use, and for how long.
var (
	libraries = []lua.LGFunction{lua.OpenPackage, lua.OpenBase, lua.OpenTable}
	statuses  = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}
)

const longest = time.Second

// healthScripts are those of a patch of argocd-cm, by GROUP/KIND.
func healthScripts(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var config struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	scripts := map[string]string{}
	for key, script := range config.Data {
		if kind, found := strings.CutPrefix(key, checkPrefix); found {
			scripts[strings.Replace(kind, "_", "/", 1)] = script
		}
	}
	return scripts, nil
}

// ofArgoCD runs an object's check in the interpreter of Argo CD, with no more than Argo CD gives it.
func ofArgoCD(obj object, scripts map[string]string) (verdict, error) {
	group, _, _ := strings.Cut(fmt.Sprint(obj["apiVersion"]), "/")
	script, found := scripts[fmt.Sprintf("%s/%s", group, obj["kind"])]
	if !found {
		return verdict{}, fmt.Errorf("there is no health check for %s of %s", obj["kind"], group)
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, open := range libraries {
		state.Push(state.NewFunction(open))
		state.Call(0, 0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", asLua(state, obj))
	if err := state.DoString(script); err != nil {
		return verdict{}, err
	}
	answer, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		return verdict{}, fmt.Errorf("the check returned a %s, not a table", state.Get(-1).Type())
	}
	said := verdict{textOf(answer, "status"), textOf(answer, "message")}
	if !slices.Contains(statuses, said.Status) {
		return verdict{}, fmt.Errorf("the check returned the status %q", said.Status)
	}
	return said, nil
}

func textOf(table *lua.LTable, key string) string {
	return lua.LVAsString(table.RawGetString(key))
}

func asLua(state *lua.LState, value any) lua.LValue {
	switch it := value.(type) {
	case string:
		return lua.LString(it)
	case bool:
		return lua.LBool(it)
	case int64:
		return lua.LNumber(it)
	case float64:
		return lua.LNumber(it)
	case []any:
		list := state.NewTable()
		for _, each := range it {
			list.Append(asLua(state, each))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, each := range it {
			table.RawSetString(key, asLua(state, each))
		}
		return table
	}
	return lua.LNil
}
