// The training-operator's PyTorchJob controller alone, for benchmarks/operators.py: its own reconciler on a manager of
// its own, without webhooks, certificates, metrics and client-side rate limits, with as many threads as asked for.
package main

import (
	"flag"
	"log"

	trainingv1 "github.com/kubeflow/training-operator/pkg/apis/kubeflow.org/v1"
	"github.com/kubeflow/training-operator/pkg/config"
	"github.com/kubeflow/training-operator/pkg/controller.v1/common"
	"github.com/kubeflow/training-operator/pkg/controller.v1/pytorch"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	threads := flag.Int("threads", 10, "how many jobs are looked at at the same time")
	flag.Parse() // --kubeconfig is controller-runtime's own flag
	ctrl.SetLogger(zap.New(zap.Level(zapcore.InfoLevel)))
	config.Config.PyTorchInitContainerImage = config.PyTorchInitContainerImageDefault
	config.Config.PyTorchInitContainerTemplateFile = config.PyTorchInitContainerTemplateFileDefault
	config.Config.PyTorchInitContainerMaxTries = config.PyTorchInitContainerMaxTriesDefault

	known := runtime.NewScheme()
	must(scheme.AddToScheme(known))
	must(trainingv1.AddToScheme(known))
	access := ctrl.GetConfigOrDie()
	access.QPS = -1
	manager, err := ctrl.NewManager(access, ctrl.Options{Scheme: known, Metrics: server.Options{BindAddress: "0"}})
	must(err)
	must(pytorch.NewReconciler(manager, common.GenNonGangSchedulerSetupFunc()).SetupWithManager(manager, *threads))
	must(manager.Start(ctrl.SetupSignalHandler()))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
